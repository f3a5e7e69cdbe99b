//! The flags of a shard: its pin, its home, and flags of other programs.

use std::fmt;
use std::sync::Arc;

use crate::address::{NodeAddress, NodeAddressError};
use crate::limits::{MAX_FLAG_SIZE, MAX_OTHER_FLAGS};

const PINNED: &str = "pinned";
const HOME: &str = "home=";

/// A flag of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `pinned`: the shard does not move for balance.
    Pinned,
    /// `home=<address>`: the node of a pinned shard that had to leave it.
    Home(NodeAddress),
    /// A flag of another program. It is kept and ignored.
    Other(Arc<str>),
}

/// Why a flag or a list of flags is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// It is empty.
    #[error("a flag is empty")]
    Empty,
    /// It is too long.
    #[error("a flag has {size} bytes, at most {MAX_FLAG_SIZE} are allowed")]
    TooLong {
        /// Its length in bytes.
        size: usize,
    },
    /// It contains a comma or a control character, which the stored form cannot represent.
    #[error("a flag has a character at byte {at} that is not allowed")]
    Character {
        /// The position of the character.
        at: usize,
    },
    /// The home is not a node address.
    #[error("invalid home in a flag: {0}")]
    Home(#[source] NodeAddressError),
    /// There are two pins or two homes. Flags of other programs may repeat.
    #[error("a flag is given twice")]
    Twice,
    /// There are too many flags of other programs.
    #[error("a shard has {count} unknown flags, at most {MAX_OTHER_FLAGS} are allowed")]
    TooMany {
        /// Their number.
        count: usize,
    },
}

impl Flag {
    /// Parses a flag.
    pub fn parse(text: &str) -> Result<Self, FlagError> {
        if text.is_empty() {
            return Err(FlagError::Empty);
        }
        if text.len() > MAX_FLAG_SIZE {
            return Err(FlagError::TooLong { size: text.len() });
        }
        if let Some(at) = text.find(|c: char| c == ',' || c.is_control()) {
            return Err(FlagError::Character { at });
        }
        if text == PINNED {
            return Ok(Self::Pinned);
        }
        match text.strip_prefix(HOME) {
            Some(address) => NodeAddress::parse(address).map(Self::Home).map_err(FlagError::Home),
            None => Ok(Self::Other(Arc::from(text))),
        }
    }

    /// Whether a list can have only one of both.
    fn excludes(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Pinned, Self::Pinned) | (Self::Home(_), Self::Home(_)))
    }
}

/// The text that [`Flag::parse`] reads.
impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned => f.write_str(PINNED),
            Self::Home(address) => write!(f, "{HOME}{address}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// The flags of a shard, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(Vec<Flag>);

impl Flags {
    /// Checks a list of flags.
    pub fn try_new(flags: Vec<Flag>) -> Result<Self, FlagError> {
        let count = flags.iter().filter(|flag| matches!(flag, Flag::Other(_))).count();
        if count > MAX_OTHER_FLAGS {
            return Err(FlagError::TooMany { count });
        }
        for (at, flag) in flags.iter().enumerate() {
            if flags.iter().take(at).any(|earlier| earlier.excludes(flag)) {
                return Err(FlagError::Twice);
            }
        }
        Ok(Self(flags))
    }

    /// The flags.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Flag> {
        self.0.iter()
    }

    /// Whether there is no flag.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the shard is pinned.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.0.contains(&Flag::Pinned)
    }

    /// The home of a pinned shard that had to leave it.
    #[must_use]
    pub fn home(&self) -> Option<&NodeAddress> {
        self.0.iter().find_map(|flag| match flag {
            Flag::Home(address) => Some(address),
            Flag::Pinned | Flag::Other(_) => None,
        })
    }

    /// The same flags with a pin to the current node.
    #[must_use]
    pub fn pinned(&self) -> Self {
        let mut flags = self.without_home();
        if !flags.is_pinned() {
            flags.0.push(Flag::Pinned);
        }
        flags
    }

    /// The same flags without a pin.
    #[must_use]
    pub fn unpinned(&self) -> Self {
        let mut flags = self.without_home();
        flags.0.retain(|flag| *flag != Flag::Pinned);
        flags
    }

    /// The same flags with a home.
    #[must_use]
    pub(crate) fn away_from(&self, home: &NodeAddress) -> Self {
        let mut flags = self.without_home();
        flags.0.push(Flag::Home(home.clone()));
        flags
    }

    /// The same flags without a home.
    #[must_use]
    pub(crate) fn without_home(&self) -> Self {
        let kept = self.0.iter().filter(|flag| !matches!(flag, Flag::Home(_)));
        Self(kept.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn flags(texts: &[&str]) -> Result<Flags, FlagError> {
        Flags::try_new(texts.iter().map(|text| Flag::parse(text)).collect::<Result<_, _>>()?)
    }

    #[rstest]
    #[case(&[""], FlagError::Empty)]
    #[case(&["a,b"], FlagError::Character { at: 1 })]
    #[case(&["a\n"], FlagError::Character { at: 1 })]
    #[case(&["home="], FlagError::Home(NodeAddressError::Empty))]
    #[case(&["home=a/b"], FlagError::Home(NodeAddressError::Character { at: 1 }))]
    #[case(&["pinned", "x", "pinned"], FlagError::Twice)]
    #[case(&["home=a", "home=b"], FlagError::Twice)]
    #[case(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f", "g"],
        FlagError::TooMany { count: 17 })]
    fn invalid_flag_lists_are_refused(#[case] texts: &[&str], #[case] error: FlagError) {
        assert_eq!(flags(texts), Err(error));
    }

    #[test]
    fn flag_is_limited_to_1024_bytes() {
        assert!(Flag::parse(&"x".repeat(1_024)).is_ok());
        assert_eq!(Flag::parse(&"x".repeat(1_025)), Err(FlagError::TooLong { size: 1_025 }));
    }

    #[test]
    fn pinning_keeps_unknown_flags() {
        let before = flags(&["hot"]).unwrap();
        let home = NodeAddress::parse("n1:1").unwrap();
        let pinned = before.pinned();
        assert!(pinned.is_pinned() && pinned.pinned() == pinned);
        let away = pinned.away_from(&home);
        assert_eq!((away.home(), away.is_pinned()), (Some(&home), true));
        assert_eq!(away.without_home(), pinned);
        assert_eq!(away.pinned(), pinned);
        assert_eq!(away.unpinned(), before);
    }

    #[test]
    fn pin_and_home_always_fit() {
        let texts: Vec<String> = (0..MAX_OTHER_FLAGS).map(|number| number.to_string()).collect();
        let full = flags(&texts.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let away = full.pinned().away_from(&NodeAddress::parse("n1:1").unwrap());
        assert_eq!(Flags::try_new(away.iter().cloned().collect()), Ok(away.clone()));
    }

    #[test]
    fn repeated_unknown_flags_are_kept() {
        let twice = flags(&["x", "pinned", "x"]).unwrap();
        assert_eq!(twice.iter().len(), 3);
    }

    proptest! {
        #[test]
        fn flags_round_trip(text in "[ -~]{0,30}") {
            if let Ok(flag) = Flag::parse(&text) {
                prop_assert_eq!(flag.to_string(), text);
            }
        }
    }
}
