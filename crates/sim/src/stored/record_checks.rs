//! The stored records, decoded, and the oracles that judge them after every commit.

mod checks;

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId};
use shardwright_coordination::{
    OwnerLiveness, ProgressCounter, RunStatus, ShardLimits, ShardRecord, ShardSummary,
    TakeoverTerms,
};
use shardwright_engine::codec::{ClockMarkRecord, Record};
use shardwright_engine::keyspace::MetaKey;
use shardwright_runs::keys::{RunKeys, ShardPart, StoreKey, ViewKey};
use shardwright_runs::records::{
    BindingRecord, ClaimableRecord, DefinitionRecord, ManifestRecord, ProgressRecord,
    RequesterRecord, ReservedShardsRecord, RunHeadRecord, RunShardsRecord, RunStateRecord,
    SplitRequestRecord, StageRecord, WaitingWorkerRecord, WatermarkRecord, join_run, join_shard,
};
use shardwright_store::{Change, ChangeSet, Versioned};

use super::ceiling::Ceiling;
use crate::oracle::{Finding, Oracle};
use crate::visible::RunView;

/// A tenant and a run.
pub(crate) type Address = (TenantId, RunId);

pub(crate) const TOGETHER: &Oracle = &Oracle::of_the_world(
    "records are consistent",
    "a shard has both its records, a run has its gate, and the records of open and owned shards \
     agree with their status",
);
pub(crate) const COUNTS: &Oracle = &Oracle::of_the_world(
    "counts equal a recount",
    "the counters of shards and of reservations equal a recount",
);
pub(crate) const BOUND: &Oracle = &Oracle::of_the_world(
    "session bindings",
    "the requests, waits and leases of a worker are bound to its process's session",
);
pub(crate) const REMOVAL: &Oracle = &Oracle::of_the_world(
    "deletion",
    "only runs that have ended or never begun are deleted, and the run's own record last",
);
pub(crate) const TIME: &Oracle = &Oracle::of_the_world(
    "clock mark",
    "the stored time never moves back, and is at most one interval ahead of all wall clocks, to \
     which it returns at half the rate",
);
pub(crate) const DECODES: &Oracle =
    &Oracle::of_the_world("records decode", "every stored record decodes");

/// The records of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunRecords {
    pub(crate) run: Option<RunHeadRecord>,
    pub(crate) manifest: Option<ManifestRecord>,
    pub(crate) gate: Option<RunStateRecord>,
    pub(crate) count: Option<RunShardsRecord>,
    pub(crate) staged: bool,
    pub(crate) watermark: Option<Box<[u8]>>,
    pub(crate) shards: BTreeMap<ShardId, ShardRecords>,
    /// Waiting workers and requesters, and whether each is bound to a session.
    others: BTreeMap<ViewKey, bool>,
}

/// The records of a shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardRecords {
    definition: Option<DefinitionRecord>,
    progress: Option<ProgressRecord>,
    pub(crate) record: Option<ShardRecord>,
    open: bool,
    pub(crate) owner: Option<BindingRecord>,
    owner_is_bound: bool,
}

/// The records that one commit, or the end of a session, changed.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Changed shards, as they were before.
    pub(crate) shards: BTreeMap<(Address, ShardId), TouchedShard>,
    /// Changed runs, as their records were before.
    pub(crate) runs: BTreeMap<Address, Option<RunHeadRecord>>,
    pub(crate) watermarks: BTreeSet<Address>,
    /// Shards whose owner changed.
    pub(crate) owners: BTreeSet<(Address, ShardId)>,
}

/// The change of a shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct TouchedShard {
    pub(crate) before: Option<ShardRecord>,
    pub(crate) defined: bool,
    pub(crate) progressed: bool,
}

/// All stored records.
pub(crate) struct RecordChecks {
    pub(super) keys: RunKeys,
    limits: ShardLimits,
    /// Whether sessions are used.
    sessions: bool,
    pub(crate) runs: BTreeMap<Address, RunRecords>,
    quotas: BTreeMap<TenantId, u64>,
    total: u64,
    pub(crate) clock: LogicalTime,
    pub(crate) ceiling: Ceiling,
    /// Ended runs whose gate was deleted.
    ungated: BTreeSet<Address>,
}

fn finding(oracle: &Oracle, text: String) -> Finding {
    Finding { oracle: oracle.name, text }
}

impl RecordChecks {
    pub(crate) fn new(keys: RunKeys, limits: ShardLimits, sessions: bool) -> Self {
        Self {
            keys,
            limits,
            sessions,
            runs: BTreeMap::new(),
            quotas: BTreeMap::new(),
            total: 0,
            clock: LogicalTime::ZERO,
            ceiling: Ceiling::default(),
            ungated: BTreeSet::new(),
        }
    }

    /// Applies changes.
    pub(crate) fn apply(&mut self, set: &ChangeSet) -> Result<Touched, Finding> {
        let mut touched = Touched::default();
        for change in &set.changes {
            let Some(place) = self.keys.parse(&change.key) else {
                return Err(finding(DECODES, format!("unknown key {}", change.key)));
            };
            self.enter(place, change, &mut touched)?;
        }
        for (address, shard) in touched.shards.keys() {
            let state = self.runs.get_mut(address).and_then(|run| run.shards.get_mut(shard));
            if let Some(state) = state {
                state.join()?;
            }
        }
        self.runs.retain(|_, run| !run.is_gone());
        Ok(touched)
    }

    fn enter(
        &mut self,
        place: StoreKey,
        change: &Change,
        touched: &mut Touched,
    ) -> Result<(), Finding> {
        let now = change.now.as_ref();
        match place {
            // Advice and names are not judged either.
            StoreKey::Meta(MetaKey::Format | MetaKey::Generation)
            | StoreKey::Estimate(..)
            | StoreKey::Name(..)
            | StoreKey::Label(..) => {}
            StoreKey::Meta(MetaKey::Clock) => self.enter_clock(now)?,
            StoreKey::QuotaTotal => self.total = reserved(now)?,
            StoreKey::QuotaTenant(tenant) => {
                self.quotas.insert(tenant, reserved(now)?);
            }
            StoreKey::Run(tenant, run) => {
                let state = self.runs.entry((tenant, run)).or_default();
                let before = std::mem::replace(&mut state.run, decode(now)?);
                touched.runs.insert((tenant, run), before);
            }
            StoreKey::Manifest(tenant, run) => {
                self.runs.entry((tenant, run)).or_default().manifest = decode(now)?;
            }
            StoreKey::Count(tenant, run) => {
                self.runs.entry((tenant, run)).or_default().count = decode(now)?;
            }
            StoreKey::Stage(tenant, run) => {
                self.runs.entry((tenant, run)).or_default().staged =
                    decode::<StageRecord>(now)?.is_some();
            }
            StoreKey::Watermark(tenant, run) => {
                self.enter_watermark((tenant, run), now, touched)?;
            }
            StoreKey::Shard(tenant, ShardKey { run, shard }, part) => {
                let address = (tenant, run);
                let state = self.runs.entry(address).or_default().shards.entry(shard).or_default();
                let entry = touched.shards.entry((address, shard)).or_insert_with(|| {
                    TouchedShard { before: state.record.clone(), ..TouchedShard::default() }
                });
                match part {
                    ShardPart::Definition => {
                        entry.defined = true;
                        state.definition = decode(now)?;
                    }
                    ShardPart::Progress => {
                        entry.progressed = true;
                        state.progress = decode(now)?;
                    }
                }
            }
            StoreKey::View(tenant, run, key) => {
                self.note_ungated((tenant, run), key, now, touched);
                if let ViewKey::Owner(shard) = key {
                    touched.owners.insert(((tenant, run), shard));
                }
                self.enter_view((tenant, run), key, now)?;
            }
        }
        Ok(())
    }

    /// A full store accepts no mark. The deletion of an ended run begins when its gate is deleted.
    fn note_ungated(
        &mut self,
        address: Address,
        key: ViewKey,
        now: Option<&Versioned>,
        touched: &mut Touched,
    ) {
        let run = self.runs.get(&address).and_then(|state| state.run.as_ref());
        if let (ViewKey::Gate, None, Some(run)) = (key, now, run)
            && run.status.is_terminal()
            && self.ungated.insert(address)
        {
            touched.runs.entry(address).or_insert_with(|| Some(run.clone()));
        }
    }

    /// Whether a run is being deleted.
    pub(crate) fn is_going(&self, address: Address) -> bool {
        let run = self.runs.get(&address).and_then(|state| state.run.as_ref());
        self.ungated.contains(&address) || run.is_some_and(|run| run.collecting)
    }

    fn enter_clock(&mut self, now: Option<&Versioned>) -> Result<(), Finding> {
        let mark =
            decode::<ClockMarkRecord>(now)?.map_or(LogicalTime::ZERO, |it| it.reserved_until);
        if mark < self.clock {
            return Err(finding(TIME, format!("{mark} after {}", self.clock)));
        }
        let most = self.ceiling.time();
        if mark > most {
            return Err(finding(TIME, format!("{mark}, allowed is {most}")));
        }
        self.clock = mark;
        Ok(())
    }

    fn enter_watermark(
        &mut self,
        address: Address,
        now: Option<&Versioned>,
        touched: &mut Touched,
    ) -> Result<(), Finding> {
        let mark = decode::<WatermarkRecord>(now)?.map(|it| it.reached);
        if mark.is_some() {
            touched.watermarks.insert(address);
        }
        self.runs.entry(address).or_default().watermark = mark;
        Ok(())
    }

    fn enter_view(
        &mut self,
        address: Address,
        key: ViewKey,
        now: Option<&Versioned>,
    ) -> Result<(), Finding> {
        let state = self.runs.entry(address).or_default();
        let is_bound = now.is_some_and(|now| now.session.is_some()) || !self.sessions;
        match key {
            ViewKey::Gate => state.gate = decode(now)?,
            ViewKey::Open(shard) => {
                state.shards.entry(shard).or_default().open =
                    decode::<ClaimableRecord>(now)?.is_some();
            }
            ViewKey::Owner(shard) => {
                let state = state.shards.entry(shard).or_default();
                (state.owner, state.owner_is_bound) = (decode(now)?, is_bound);
            }
            ViewKey::Waiting(_) => {
                let is_there = decode::<WaitingWorkerRecord>(now)?.is_some();
                state.note_other(key, is_there, is_bound);
            }
            ViewKey::Requester(_) => {
                let is_there = decode::<RequesterRecord>(now)?.is_some();
                state.note_other(key, is_there, is_bound);
            }
            ViewKey::SplitRequest(_) => {
                let sent = decode::<SplitRequestRecord>(now)?;
                // A declined request is bound to no session.
                let is_open = sent.is_some_and(|sent| sent.slot.open.is_some());
                state.note_other(key, sent.is_some(), is_bound || !is_open);
            }
        }
        Ok(())
    }

    /// Judges the runs that a commit changed.
    pub(crate) fn check(&self, touched: &Touched) -> Result<(), Finding> {
        let of_shards = touched.shards.keys().map(|(address, _)| *address);
        let runs: BTreeSet<Address> = of_shards.chain(touched.runs.keys().copied()).collect();
        for ((address, shard), what) in &touched.shards {
            let is_there = self.runs.get(address).and_then(|run| run.shards.get(shard));
            let is_there = is_there.is_some_and(|state| state.definition.is_some());
            if what.defined && !what.progressed && is_there {
                let text = format!("shard {shard} was defined again without its progress");
                return Err(finding(TOGETHER, text));
            }
        }
        for (address, before) in &touched.runs {
            self.check_removal(*address, before.as_ref())?;
        }
        for address in runs.into_iter().filter(|address| !self.ungated.contains(address)) {
            if let Some(state) = self.runs.get(&address) {
                state.check().map_err(|(oracle, text)| {
                    finding(oracle, format!("run {}: {text}", address.1))
                })?;
            }
        }
        self.check_quotas()
    }

    fn check_removal(&self, address: Address, was: Option<&RunHeadRecord>) -> Result<(), Finding> {
        let state = self.runs.get(&address);
        let now = state.and_then(|state| state.run.as_ref());
        let wrong = |text: &str| Err(finding(REMOVAL, format!("run {}: {text}", address.1)));
        match (was, now) {
            (Some(before), None) if !before.collecting && !self.ungated.contains(&address) => {
                wrong("deleted without being marked")
            }
            (Some(_), None) if state.is_some() => wrong("the run is deleted and records are left"),
            (Some(before), Some(now)) if now.collecting && before.status == RunStatus::Active => {
                wrong("deleted while it is active")
            }
            (Some(before), Some(now)) if before.collecting && !now.collecting => {
                wrong("came back while it was being deleted")
            }
            _ => Ok(()),
        }
    }

    /// The visible state of a run.
    pub(crate) fn view(&self, address: Address) -> Option<RunView> {
        let state = self.runs.get(&address)?;
        let run = state.run.clone().filter(|_| !self.is_going(address))?;
        let manifest = state.manifest.clone().unwrap_or(ManifestRecord { root_shards: Vec::new() });
        // Staged shards are not visible yet.
        let has_begun = state.manifest.is_some();
        let record = join_run(run, manifest).ok()?;
        // At time zero no lease has expired, so the view does not depend on the time.
        let terms =
            TakeoverTerms { now: LogicalTime::ZERO, fence_floor: FenceEpoch::INITIAL, skew_ms: 0 };
        let (mut progress, owner) = (ProgressCounter::new(terms), OwnerLiveness::Untracked);
        let mut shards = Vec::new();
        for shard in state.shards.values().filter(|_| has_begun) {
            let record = shard.record.as_ref()?;
            let (spec, cursor) = (record.spec.as_spec_ref(), record.cursor.as_update());
            progress.add(&record.head, owner, spec, cursor);
            shards.push(ShardSummary::of(record, &terms, owner));
        }
        shards.sort_by(|a, b| (&a.start, a.shard).cmp(&(&b.start, b.shard)));
        let mut progress = progress.finish(None);
        progress.watermark.clone_from(&state.watermark);
        Some(RunView { record, shards, progress, at: LogicalTime::ZERO })
    }

    /// The records that are left after all runs were deleted.
    pub(crate) fn leftovers(&self) -> Option<Finding> {
        let left: Vec<String> = self.runs.keys().map(|(_, run)| run.to_string()).collect();
        let reserved = self.total + self.quotas.values().sum::<u64>();
        (!left.is_empty() || reserved > 0).then(|| {
            finding(REMOVAL, format!("left of runs {left:?}, {reserved} shards still reserved"))
        })
    }

    /// The numbers of existing shards by tenant.
    pub(crate) fn used(&self) -> BTreeMap<TenantId, u64> {
        let mut used = BTreeMap::new();
        for ((tenant, _), run) in &self.runs {
            *used.entry(*tenant).or_default() += run.count.map_or(0, |count| count.used);
        }
        used
    }

    fn check_quotas(&self) -> Result<(), Finding> {
        let mut reserved: BTreeMap<TenantId, u64> = BTreeMap::new();
        for ((tenant, _), run) in &self.runs {
            *reserved.entry(*tenant).or_default() += run.count.map_or(0, |count| count.reserved);
        }
        let total: u64 = reserved.values().sum();
        let same = self
            .quotas
            .iter()
            .all(|(tenant, stored)| *stored == reserved.get(tenant).copied().unwrap_or_default());
        if total != self.total || !same {
            let text = format!("{total} reserved by runs, {} in all", self.total);
            return Err(finding(COUNTS, text));
        }
        let most = reserved.values().copied().max().unwrap_or_default();
        if total > self.limits.total as u64 || most > self.limits.per_tenant as u64 {
            return Err(finding(COUNTS, format!("{total} reserved, by one tenant {most}")));
        }
        Ok(())
    }
}

fn decode<T: Record>(now: Option<&Versioned>) -> Result<Option<T>, Finding> {
    let decoded = now.map(|now| T::decode(&now.value)).transpose();
    decoded.map_err(|error| finding(DECODES, error.to_string()))
}

fn reserved(now: Option<&Versioned>) -> Result<u64, Finding> {
    Ok(decode::<ReservedShardsRecord>(now)?.map_or(0, |it| it.reserved))
}

impl ShardRecords {
    fn join(&mut self) -> Result<(), Finding> {
        self.record = match (&self.definition, &self.progress) {
            (Some(definition), Some(progress)) => {
                let joined = join_shard(definition.clone(), progress.clone());
                Some(joined.map_err(|error| finding(TOGETHER, error.to_string()))?)
            }
            // A run is deleted in several commits, which may separate the records of a shard.
            _ => None,
        };
        Ok(())
    }

    const fn is_gone(&self) -> bool {
        self.definition.is_none() && self.progress.is_none() && !self.open && self.owner.is_none()
    }
}

impl RunRecords {
    fn note_other(&mut self, key: ViewKey, is_there: bool, is_bound: bool) {
        if is_there {
            self.others.insert(key, is_bound);
        } else {
            self.others.remove(&key);
        }
    }

    fn is_gone(&mut self) -> bool {
        self.shards.retain(|_, shard| !shard.is_gone());
        self.run.is_none()
            && self.manifest.is_none()
            && self.gate.is_none()
            && self.count.is_none()
            && !self.staged
            && self.watermark.is_none()
            && self.shards.is_empty()
            && self.others.is_empty()
    }
}
