//! Bugs planted from outside, to show that every oracle can fail.
//!
//! The product does not contain them. A [`Bug`] is a wrapper at one of the product's seams: around
//! its store, its backend, its objects or its configuration. A world gets its bug as a setting, so
//! worlds with different bugs run side by side.
//!
//! Each bug has a row in a table, a [`Defect`]. The row names the seed whose world showed the bug
//! last, and the oracle that must detect it. A search tries that seed first, and others only if
//! the oracle stays silent there.
//!
//! Most wrappers make the product itself misbehave. Where none can, a wrapper changes what the
//! product returned, at the seams [`Seam::Answer`] and [`Seam::Events`]. Such a row proves less:
//! only that the oracle compares the changed value. Three oracles have no other row: they compare
//! answers and events of the in-memory backend with each other.

pub mod clusters;
mod find;
pub(crate) mod objects;
pub mod protocol;
pub(crate) mod protocol_doctor;
pub mod stored;
pub(crate) mod stored_doctor;
mod stored_draft;
pub(crate) mod stored_tamper;
mod stored_values;
pub(crate) mod tamper;
pub(crate) mod worker_doctor;
pub mod workers;

pub use find::{Found, find, find_all, find_named};

use crate::oracle::Finding;

/// The place of a wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seam {
    /// In front of the backend: a request is changed, dropped or repeated, or calls are added.
    Backend,
    /// Behind the backend: an answer or a view is changed. Shows only that an oracle compares it.
    Answer,
    /// Around the event stream. Shows only that an oracle compares the events.
    Events,
    /// Between a process and the store: a commit, its outcome, a read or a watch is changed.
    Store,
    /// The product and the oracles use different configurations.
    Config,
    /// Around the objects of a node.
    Objects,
    /// Around calls to objects.
    Calls,
    /// Around a worker's handler.
    Handler,
    /// Around a worker's sink and its segments.
    Sink,
    /// Around a worker's connector.
    Source,
    /// Around a worker's clock, tasks and randomness.
    Environment,
}

impl Seam {
    /// Whether the product behaves correctly, and only its output is changed.
    #[must_use]
    pub const fn is_output(self) -> bool {
        matches!(self, Self::Answer | Self::Events)
    }
}

/// A row of the table of planted bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Name of the bug.
    pub name: &'static str,
    /// Its effect.
    pub sentence: &'static str,
    /// Where it is planted.
    pub seam: Seam,
    /// A seed whose world shows it.
    pub seed: u64,
    /// The oracle that must detect it.
    pub caught_by: &'static str,
}

/// The bugs of one kind of world.
pub trait Bug: Copy + Send + Sync + 'static {
    /// Every bug, in the order of the table.
    const ALL: &'static [Self];
    /// Number of seeds that a search tries.
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
