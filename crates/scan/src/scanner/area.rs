//! Which parts of a window a rule has to look at.

use std::ops::Range;

use super::reach::Reach;

/// Parts of a window: apart from each other, or one for each keyword that a match can begin with.
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

    /// Puts parts in the order of their beginnings, which that of keywords' ends need not be.
    pub(super) fn sort(&mut self) {
        if !self.parts.is_sorted_by_key(|part| part.start) {
            self.parts.sort_by_key(|part| part.start);
        }
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
            // Those that begin in the same place are one, and come one behind the other.
            Reach::At { .. } if self.parts.last().is_some_and(|it| it.start == keyword.start) => {
                return;
            }
            Reach::At { longest } => {
                let end = keyword.start.saturating_add(longest).min(window);
                self.parts.push(keyword.start..end);
                return;
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
        assert_eq!(area.parts(), std::slice::from_ref(&(0..100)));
    }

    #[test]
    fn keywords_that_begin_a_match_are_tried_in_the_order_of_their_beginnings() {
        let (mut area, at) = (Area::default(), Reach::At { longest: 10 });
        for keyword in [5..8, 5..9, 7..10, 3..20, 95..99] {
            area.add(at, keyword, 100);
        }
        area.sort();
        assert_eq!(area.parts(), [3..13, 5..15, 7..17, 95..100]);
    }
}
