//! How much is left of a range.

/// What is left of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceEstimate {
    /// Items.
    pub items: Quantity,
    /// Bytes that the items stand for.
    pub bytes: Quantity,
}

/// A number, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Counted.
    Exact(u64),
    /// Guessed from a part of them.
    About(u64),
    /// This many were counted before the count was broken off; there may be many more.
    AtLeast(u64),
    /// Nothing is known.
    Unknown,
}

impl Quantity {
    /// The number, however well it is known.
    #[must_use]
    pub const fn value(self) -> Option<u64> {
        match self {
            Self::Exact(value) | Self::About(value) | Self::AtLeast(value) => Some(value),
            Self::Unknown => None,
        }
    }
}
