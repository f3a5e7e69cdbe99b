use std::fmt;

/// How big the world is. Everything in it is bounded by these numbers, so that the search ends
/// because there is nothing left, never because it was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What this choice is called.
    pub name: &'static str,
    /// How many workers there are, at most [`WORKERS_MAX`].
    pub workers: u8,
    /// How many keys the manifest covers, at most [`KEYS_MAX`].
    pub keys: u8,
    /// Where the manifest is cut into its shards.
    pub cuts: &'static [u8],
    /// The keys that checkpoints name.
    pub checkpoints: &'static [u8],
    /// How many shards there may be, those of the manifest included; at most [`SHARDS_MAX`].
    pub shards: u8,
    /// How many ticks a lease lasts.
    pub lease_ticks: u64,
    /// After how many fruitless acquires a shard parks itself.
    pub retries: Option<u32>,
    /// How many requests can be under way, at most [`REQUESTS_MAX`].
    pub requests: u8,
    /// Whether a worker may use an operation's id again for something else.
    pub misuse: bool,
}

/// What a search within some bounds comes to. A changed number is a changed protocol or a changed
/// model: find out which before you pin it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Distinct states.
    pub states: u64,
    /// Steps from the first of them to the last.
    pub depth: u32,
}

/// Most workers of any bounds.
pub const WORKERS_MAX: usize = 3;
/// Most keys of any bounds.
pub const KEYS_MAX: u8 = 4;
/// Most shards of any bounds.
pub const SHARDS_MAX: usize = 5;
/// Most requests under way of any bounds.
pub const REQUESTS_MAX: usize = 2;

impl Bounds {
    /// For deliberate defects, each of which shows itself within a few steps.
    pub const TINY: Self = Self {
        name: "tiny",
        workers: 2,
        keys: 2,
        cuts: &[],
        checkpoints: &[0, 1],
        shards: 3,
        lease_ticks: 1,
        retries: None,
        requests: 1,
        misuse: false,
    };

    /// For every run of the tests.
    pub const SMALL: Self = Self { name: "small", lease_ticks: 2, retries: Some(2), ..Self::TINY };

    /// Beside the small ones: more keys than workers, so that what a split made is split again.
    pub const SPLITS: Self =
        Self { name: "splits", workers: 1, keys: 3, checkpoints: &[1], misuse: true, ..Self::TINY };

    /// For when there is time: everything that the others have, at once.
    pub const LARGE: Self = Self {
        name: "large",
        keys: 3,
        checkpoints: &[0, 1, 2],
        retries: Some(1),
        misuse: true,
        ..Self::SMALL
    };

    /// What a search within them comes to, for those that are searched through as they are.
    #[must_use]
    pub fn pinned(&self) -> Option<Pinned> {
        let all = [
            (Self::SMALL, Pinned { states: 1_401_812, depth: 26 }),
            (Self::SPLITS, Pinned { states: 247_783, depth: 19 }),
            (Self::LARGE, Pinned { states: 21_469_979, depth: 24 }),
        ];
        all.into_iter().find(|(bounds, _)| bounds == self).map(|(_, pinned)| pinned)
    }

    /// The bounds that together show everything, by the name of their size.
    #[must_use]
    pub fn of_size(size: &str) -> Option<&'static [Self]> {
        match size {
            "small" => Some(&[Self::SMALL, Self::SPLITS]),
            "large" => Some(&[Self::LARGE]),
            _ => None,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} workers, {} request(s) under way, {} keys, up to {} shards, \
             leases of {} tick(s)",
            self.name, self.workers, self.requests, self.keys, self.shards, self.lease_ticks
        )
    }
}
