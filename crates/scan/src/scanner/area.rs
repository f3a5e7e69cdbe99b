//! Which parts of a window a rule has to look at.

use std::ops::Range;

use super::reach::Reach;

/// Parts of a window, in order and apart from each other.
#[derive(Debug, Default)]
pub(super) struct Area {
    parts: Vec<Range<usize>>,
}

impl Area {
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn parts(&self) -> &[Range<usize>] {
        &self.parts
    }

    /// Takes in all that a rule of this reach may match because of a keyword. Keywords come in
    /// the order of their ends.
    pub(super) fn add(&mut self, reach: Reach, keyword: Range<usize>, window: usize) {
        let part = match reach {
            Reach::Nowhere => return,
            Reach::Everywhere | Reach::WithKeyword => 0..window,
            Reach::Around { longest } => {
                let start = keyword.end.saturating_sub(longest);
                start..keyword.start.saturating_add(longest).min(window)
            }
        };
        match self.parts.last_mut() {
            // With the same reach, what ends later begins later.
            Some(last) if last.end >= part.start => last.end = last.end.max(part.end),
            _ => self.parts.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbourhoods_that_touch_are_one() {
        let mut area = Area::default();
        let around = Reach::Around { longest: 10 };
        area.add(around, 12..15, 100);
        area.add(around, 20..25, 100);
        area.add(around, 90..95, 100);
        assert_eq!(area.parts(), [5..30, 85..100]);
        area.add(Reach::WithKeyword, 96..97, 100);
        assert_eq!(area.parts(), [5..30, 85..100]);
        area.clear();
        area.add(Reach::WithKeyword, 96..97, 100);
        area.add(Reach::WithKeyword, 97..98, 100);
        assert_eq!(area.parts(), [0..100]);
    }
}
