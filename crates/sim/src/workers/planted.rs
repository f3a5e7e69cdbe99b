//! Bugs planted from outside: wrappers around a worker's surroundings that break one promise.
//!
//! The worker loop does not know of them. A world gets its defect as a setting, so hunts run on
//! all cores.

mod environment;
mod sink;
mod source;

use super::oracle::{alone, done, durable, lease, lost, once, repeated, stale, straggler};
use super::{ACTS, live_with};
use crate::oracle::Oracle;

/// How many seeds are searched for a defect that its recorded seed does not show.
const SEEDS_MAX: u64 = 200;

/// The part of a worker's surroundings that is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seam {
    /// The sink and its segments.
    Sink,
    /// The connector.
    Source,
    /// Time, tasks and chance.
    Environment,
}

/// Declares the defects.
macro_rules! defects {
    ($($name:ident, $seam:ident, $caught_by:ident, $seed:literal, $sentence:literal;)+) => {
        /// What a wrapper does wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Plant {
            $($name,)+
        }

        /// Every defect.
        pub const ALL: &[Defect] = &[$(Defect {
            name: stringify!($name),
            sentence: $sentence,
            seam: Seam::$seam,
            caught_by: $caught_by::ORACLE,
            seed: $seed,
            plant: Plant::$name,
        }),+];
    };
}

/// A bug that can be planted.
pub struct Defect {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub sentence: &'static str,
    /// What is wrapped.
    pub seam: Seam,
    /// The oracle that catches it.
    pub caught_by: &'static Oracle,
    /// A seed whose world shows it.
    pub seed: u64,
    plant: Plant,
}

defects! {
    ResultDoubled, Sink, once, 0, "the sink appends some results twice";
    ResultDropped, Sink, lost, 0, "the sink accepts some results and keeps none of them";
    SyncSkipped, Sink, durable, 0, "the sink acknowledges a sync before the bytes are durable";
    TailLost, Sink, durable, 0, "the sink loses the last bytes of a durable segment";
    SegmentShared, Sink, stale, 0, "the sink keeps one segment per shard, whatever the fence";
    SyncRefused, Sink, repeated, 0, "the sink refuses every sync under an even fence";
    ItemSkipped, Source, lost, 0, "the source leaves an item out of its pages";
    ItemRepeated, Source, once, 0, "the source begins a page with the item before it";
    SplitInHand, Source, alone, 0, "the source proposes a split before what is being worked on";
    NothingLeft, Source, straggler, 0, "the source estimates that nothing is left";
    SourceStuck, Source, done, 0, "the source fails for good behind some item";
    ClockStandsStill, Environment, lease, 0, "the monotonic clock stands still";
    SleepsForever, Environment, done, 0, "a wait of more than 100 ms never ends";
}

/// Something wrapped, with at most one defect.
#[derive(Clone)]
pub(super) struct Doctored<T> {
    inner: T,
    plant: Option<Plant>,
}

impl<T> Doctored<T> {
    pub(super) const fn new(inner: T, plant: Option<Plant>) -> Self {
        Self { inner, plant }
    }
}

/// A world that showed a defect.
#[derive(Clone, Debug)]
pub struct Detection {
    /// Its seed.
    pub seed: u64,
    /// The oracle whose sentence it broke.
    pub oracle: &'static str,
}

impl Defect {
    /// Plants the defect in the world of a seed.
    #[must_use]
    pub fn plant_in(&self, seed: u64) -> Option<Detection> {
        let report = live_with(seed, ACTS, false, Some(self.plant));
        let finding = report.findings.first()?;
        Some(Detection { seed, oracle: finding.oracle })
    }

    /// A world in which the oracle that should catch the defect does: of the recorded seed, or else
    /// of the first seed that shows it.
    #[must_use]
    pub fn find(&self) -> Option<Detection> {
        let seeds = std::iter::once(self.seed).chain(0..SEEDS_MAX);
        let mut detections = seeds.filter_map(|seed| self.plant_in(seed));
        detections.find(|detection| detection.oracle == self.caught_by.name)
    }
}
