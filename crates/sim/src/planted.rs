//! Bugs planted from outside, to show that every oracle can fail.
//!
//! The product knows nothing of them. A [`Bug`] is a wrapper at one of the product's seams: around
//! its store, its backend, its objects or its configuration. A world gets its bug as a setting, so
//! that worlds with different bugs run side by side.
//!
//! Each bug has a row in a table, a [`Defect`]. The row names the seed whose world showed the bug
//! last, and the oracle that caught it there. A search tries that seed first, and others only if
//! the bug escapes.

pub mod clusters;
mod find;
pub(crate) mod objects;
pub mod protocol;
pub(crate) mod protocol_doctor;
pub mod stored;
pub(crate) mod stored_doctor;
pub(crate) mod stored_tamper;
pub(crate) mod tamper;
pub mod workers;

pub use find::{Detection, Found, find, find_all, find_named, find_with};

use crate::oracle::Finding;

/// Where a wrapper sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seam {
    /// Around the backend: a request is changed, swallowed or repeated, or its answer is changed.
    Backend,
    /// Around the event stream.
    Events,
    /// Between a process and the store: a commit, its outcome, a read or a watch is changed.
    Store,
    /// Another configuration than the one that the oracles judge by.
    Config,
    /// Around the objects of a node.
    Objects,
    /// Around calls to objects.
    Calls,
    /// Around a worker's sink and its segments.
    Sink,
    /// Around a worker's connector.
    Source,
    /// Around a worker's time, tasks and chance.
    Environment,
}

/// A row of the table of planted bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Its name.
    pub name: &'static str,
    /// What is wrong while it is planted.
    pub sentence: &'static str,
    /// Where it is planted.
    pub seam: Seam,
    /// A seed whose world shows it.
    pub seed: u64,
    /// The oracle that catches it there.
    pub caught_by: &'static str,
}

/// The bugs of one kind of world.
pub trait Bug: Copy + Send + Sync + 'static {
    /// Every bug, in the order of the table.
    const ALL: &'static [Self];
    /// How many seeds a search tries.
    const SEEDS_MAX: u64;

    /// The bug's row.
    fn defect(self) -> Defect;

    /// Runs the world of a seed with the bug planted, and returns what the oracles found.
    fn live(self, seed: u64) -> Vec<Finding>;
}

/// Declares the bugs of one kind of world, a row each:
/// `Name: Seam, seed, "oracle" = "what is wrong";`
macro_rules! bugs {
    (
        $(#[$about:meta])+
        $kind:ident, within $seeds_max:literal seeds, in worlds of $live:path {
            $($name:ident: $seam:ident, $seed:literal, $caught_by:literal = $sentence:literal;)+
        }
    ) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $kind {
            $(#[doc = $sentence] $name,)+
        }

        impl $crate::planted::Bug for $kind {
            const ALL: &'static [Self] = &[$(Self::$name),+];
            const SEEDS_MAX: u64 = $seeds_max;

            fn defect(self) -> $crate::planted::Defect {
                match self {
                    $(Self::$name => $crate::planted::Defect {
                        name: stringify!($name),
                        sentence: $sentence,
                        seam: $crate::planted::Seam::$seam,
                        seed: $seed,
                        caught_by: $caught_by,
                    },)+
                }
            }

            fn live(self, seed: u64) -> Vec<$crate::oracle::Finding> {
                $live(self, seed)
            }
        }
    };
}

pub(crate) use bugs;
