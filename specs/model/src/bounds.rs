use std::fmt;

/// Size of the world. These numbers bound everything in it, so the search ends only when every
/// state is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Name of the bounds.
    pub name: &'static str,
    /// Number of workers, at most [`WORKERS_MAX`].
    pub workers: u8,
    /// Number of keys in the manifest, at most [`KEYS_MAX`].
    pub keys: u8,
    /// The boundaries between the shards of the manifest.
    pub cuts: &'static [u8],
    /// The keys that checkpoints name.
    pub checkpoints: &'static [u8],
    /// Maximum number of shards, including those of the manifest; at most [`SHARDS_MAX`].
    pub shards: u8,
    /// Duration of a lease in ticks.
    pub lease_ticks: u64,
    /// Number of acquires without progress after which a shard parks itself.
    pub retries: Option<u32>,
    /// Maximum number of requests in flight, at most [`REQUESTS_MAX`].
    pub requests: u8,
    /// Whether a worker may reuse an operation id for another request.
    pub misuse: bool,
}

/// The pinned result of a search. A different number means that the protocol or the model has
/// changed: find out which before you pin it.
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
/// Most requests in flight of any bounds.
pub const REQUESTS_MAX: usize = 2;

impl Bounds {
    /// For planted defects. Each shows within a few steps.
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

    /// For `cargo xtask test`.
    pub const SMALL: Self = Self { name: "small", lease_ticks: 2, retries: Some(2), ..Self::TINY };

    /// For `cargo xtask test`: more keys than workers, so that children are split again.
    pub const SPLITS: Self =
        Self { name: "splits", workers: 1, keys: 3, checkpoints: &[1], misuse: true, ..Self::TINY };

    /// For `cargo xtask model`: all features of the other bounds at once.
    pub const LARGE: Self = Self {
        name: "large",
        keys: 3,
        checkpoints: &[0, 1, 2],
        retries: Some(1),
        misuse: true,
        ..Self::SMALL
    };

    /// The pinned result, for bounds that have one.
    #[must_use]
    pub fn pinned(&self) -> Option<Pinned> {
        let all = [
            (Self::SMALL, Pinned { states: 1_401_812, depth: 26 }),
            (Self::SPLITS, Pinned { states: 247_783, depth: 19 }),
            (Self::LARGE, Pinned { states: 21_469_979, depth: 24 }),
        ];
        all.into_iter().find(|(bounds, _)| bounds == self).map(|(_, pinned)| pinned)
    }

    /// The bounds that together produce every situation, by the name of their size.
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
            "{}: {} workers, {} request(s) in flight, {} keys, up to {} shards, \
             leases of {} tick(s)",
            self.name, self.workers, self.requests, self.keys, self.shards, self.lease_ticks
        )
    }
}
