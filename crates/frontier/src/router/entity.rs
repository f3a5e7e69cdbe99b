/// The id of one routed entity.
///
/// Every number is a valid id, the largest included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(u64);

impl EntityId {
    /// The raw number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<u64> for EntityId {
    fn from(raw: u64) -> Self {
        Self(raw)
    }
}

/// The ids from `start` up to, not including, `end`; an `end` of [`u64::MAX`] takes in the last
/// id as well.
///
/// A half-open range of `u64` cannot name the last id, since the bound past it does not exist.
/// Stored configurations already write `u64::MAX` to say "to the very end", and they must go on
/// covering everything, so here that bound is read as reaching *through* the last id. No id is
/// then left without an owner. The price is that the last id cannot be cut off from the one
/// before it: no range says "up to, not including, `u64::MAX`".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EntityIdRange {
    /// The first id.
    pub start: u64,
    /// The id after the last one, or [`u64::MAX`] for a range that runs through the last id.
    pub end: u64,
}

impl EntityIdRange {
    /// Every id there is.
    #[must_use]
    pub const fn full() -> Self {
        Self { start: 0, end: u64::MAX }
    }

    /// Whether the range holds `id`.
    #[must_use]
    pub const fn contains(&self, id: u64) -> bool {
        id >= self.start && (id < self.end || self.end == u64::MAX)
    }

    /// Whether the range holds no id at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.last().is_none()
    }

    /// The greatest id of the range, or nothing if it is empty.
    ///
    /// The router works with this inclusive bound alone, so the double meaning of `u64::MAX` is
    /// settled here and nowhere else.
    pub(super) const fn last(&self) -> Option<u64> {
        match self.end {
            u64::MAX => Some(u64::MAX),
            end if end > self.start => Some(end - 1),
            _ => None,
        }
    }

    /// The range from `first` through `last`, where `last` is not the id before the greatest:
    /// see the type's documentation for why that one bound cannot be written.
    pub(super) const fn through(first: u64, last: u64) -> Self {
        Self { start: first, end: last.saturating_add(1) }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const fn range(start: u64, end: u64) -> EntityIdRange {
        EntityIdRange { start, end }
    }

    #[test]
    fn an_id_gives_its_number_back() {
        for raw in [0, 42, u64::MAX] {
            assert_eq!(EntityId::from(raw).as_u64(), raw);
        }
    }

    #[rstest]
    #[case::before_the_start(range(10, 20), 9, false)]
    #[case::the_start(range(10, 20), 10, true)]
    #[case::the_last_inside(range(10, 20), 19, true)]
    #[case::the_end(range(10, 20), 20, false)]
    #[case::past_the_end(range(10, 20), u64::MAX, false)]
    #[case::empty_at_its_own_start(range(10, 10), 10, false)]
    #[case::backwards(range(20, 10), 15, false)]
    #[case::the_last_id_under_an_open_end(range(10, u64::MAX), u64::MAX, true)]
    #[case::the_id_before_it(range(10, u64::MAX), u64::MAX - 1, true)]
    #[case::before_the_start_of_an_open_end(range(10, u64::MAX), 9, false)]
    #[case::the_last_id_alone(range(u64::MAX, u64::MAX), u64::MAX, true)]
    #[case::beside_the_last_id_alone(range(u64::MAX, u64::MAX), u64::MAX - 1, false)]
    #[case::one_short_of_open(range(10, u64::MAX - 1), u64::MAX - 1, false)]
    #[case::the_first_id_of_all(EntityIdRange::full(), 0, true)]
    #[case::the_last_id_of_all(EntityIdRange::full(), u64::MAX, true)]
    fn a_range_holds_exactly_its_ids(
        #[case] range: EntityIdRange,
        #[case] id: u64,
        #[case] held: bool,
    ) {
        assert_eq!(range.contains(id), held);
    }

    #[rstest]
    #[case::one_id(range(10, 11), Some(10))]
    #[case::several(range(10, 20), Some(19))]
    #[case::nothing(range(10, 10), None)]
    #[case::nothing_at_zero(range(0, 0), None)]
    #[case::backwards(range(20, 10), None)]
    #[case::everything(EntityIdRange::full(), Some(u64::MAX))]
    #[case::the_last_id_alone(range(u64::MAX, u64::MAX), Some(u64::MAX))]
    #[case::one_short_of_open(range(10, u64::MAX - 1), Some(u64::MAX - 2))]
    fn the_last_id_is_known_unless_the_range_is_empty(
        #[case] range: EntityIdRange,
        #[case] last: Option<u64>,
    ) {
        assert_eq!(range.last(), last);
        assert_eq!(range.is_empty(), last.is_none());
    }

    #[rstest]
    #[case(range(0, 1))]
    #[case(range(10, 20))]
    #[case(range(10, u64::MAX - 1))]
    #[case(range(10, u64::MAX))]
    #[case(EntityIdRange::full())]
    fn bounds_survive_the_inclusive_form(#[case] range: EntityIdRange) {
        let last = range.last().unwrap();
        assert_eq!(EntityIdRange::through(range.start, last), range);
    }

    #[cfg(feature = "serde")]
    mod json {
        use super::*;

        #[test]
        fn a_range_is_an_object_of_two_numbers() {
            let text = serde_json::to_string(&range(0, 1000)).unwrap();
            assert_eq!(text, r#"{"start":0,"end":1000}"#);
        }

        #[test]
        fn a_range_survives_the_round_trip_at_every_bound() {
            for range in [range(0, 0), range(7, 9), range(u64::MAX, u64::MAX), range(9, 7)] {
                let text = serde_json::to_string(&range).unwrap();
                assert_eq!(serde_json::from_str::<EntityIdRange>(&text).unwrap(), range);
            }
        }

        #[test]
        fn a_stored_full_range_still_covers_the_last_id() {
            let stored = r#"{"start":0,"end":18446744073709551615}"#;
            let range: EntityIdRange = serde_json::from_str(stored).unwrap();
            assert_eq!(range, EntityIdRange::full());
            assert!(range.contains(u64::MAX));
        }
    }
}
