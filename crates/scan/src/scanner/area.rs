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

    /// Puts parts in order. Keywords come by their beginnings or by their ends, and the parts of
    /// neither need be in order.
    pub(super) fn settle(&mut self, reach: Reach) {
        if self.parts.is_sorted_by_key(|part| part.start) {
            return;
        }
        self.parts.sort_by_key(|part| part.start);
        if !matches!(reach, Reach::At { .. }) {
            self.parts.dedup_by(|later, earlier| {
                let is_one = later.start <= earlier.end;
                if is_one {
                    earlier.end = earlier.end.max(later.end);
                }
                is_one
            });
        }
    }

    pub(super) fn parts(&self) -> &[Range<usize>] {
        &self.parts
    }

    /// Takes in all that a rule of this reach may match because of a keyword.
    pub(super) fn add(&mut self, reach: Reach, keyword: Range<usize>, window: usize) {
        match reach {
            Reach::Nowhere => {}
            Reach::Everywhere | Reach::WithKeyword => {
                if self.parts.is_empty() {
                    self.parts.push(0..window);
                }
            }
            Reach::Around { longest } => {
                let start = keyword.end.saturating_sub(longest);
                let end = keyword.start.saturating_add(longest).min(window);
                match self.parts.last_mut() {
                    Some(last) if (last.start..=last.end).contains(&start) => {
                        last.end = last.end.max(end);
                    }
                    _ => self.parts.push(start..end),
                }
            }
            Reach::At { longest } => {
                // Keywords that begin in the same place mostly come one behind the other.
                if self.parts.last().is_none_or(|last| last.start != keyword.start) {
                    let end = keyword.start.saturating_add(longest).min(window);
                    self.parts.push(keyword.start..end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(reach: Reach, keywords: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut area = Area::default();
        keywords.iter().for_each(|keyword| area.add(reach, keyword.clone(), 100));
        area.settle(reach);
        area.parts
    }

    #[test]
    fn neighbourhoods_that_touch_are_one_in_whichever_order_they_come() {
        let around = Reach::Around { longest: 10 };
        assert_eq!(area(around, &[12..15, 20..25, 90..95]), [5..30, 85..100]);
        assert_eq!(area(around, &[90..95, 20..25, 12..15]), [5..30, 85..100]);
        assert_eq!(area(around, &[30..39, 31..33, 60..63]), [23..41, 53..70]);
    }

    #[test]
    fn a_keyword_anywhere_opens_everything_once() {
        let whole = area(Reach::WithKeyword, &[96..97, 3..5]);
        assert_eq!(whole, vec![0..100; 1]);
    }

    #[test]
    fn keywords_that_begin_a_match_are_tried_in_the_order_of_their_beginnings() {
        let at = area(Reach::At { longest: 10 }, &[5..8, 5..9, 7..10, 3..20, 95..99]);
        assert_eq!(at, [3..13, 5..15, 7..17, 95..100]);
    }
}
