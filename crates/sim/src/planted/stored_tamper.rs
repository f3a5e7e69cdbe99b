//! Bugs between a process of the stored engine and the store.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shardwright_contracts::{LogicalTime, RunId, ShardKey, TenantId};
use shardwright_coordination::{EventKind, RunStatus, ShardStatus, StateTransitionEvent};
use shardwright_engine::codec::{ClockMarkRecord, Record};
use shardwright_engine::keyspace::MetaKey;
use shardwright_runs::keys::{RunKeys, ShardPart, StoreKey, ViewKey};
use shardwright_runs::records::{
    BindingRecord, ProgressRecord, RunHeadRecord, RunStateRecord, SplitRequestRecord,
};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{
    Commit, CommitError, Expect, Expectation, Fault, FaultKind, Key, Revision, ScanPage, Snapshot,
    Versioned, Write,
};

use super::stored::StoredBug;
use super::tamper::{self, Tamper};
use crate::runtime::direct::current;

/// The revision of values that a bug invents.
const MADE_UP: Revision = Revision::new(u64::MAX);

/// Time that a bug adds to leases.
const AN_HOUR_MS: u64 = 3_600_000;

/// Events that a bug adds.
pub(crate) type AddedEvents = Arc<Mutex<Vec<StateTransitionEvent>>>;

/// A bug on the link of one process, for one life of the process.
pub(crate) struct StoredTamper {
    pub(crate) bug: StoredBug,
    pub(crate) keys: RunKeys,
    pub(crate) mark_interval_ms: u64,
    pub(crate) rumours: AddedEvents,
    has_clock: AtomicBool,
    staged: Mutex<BTreeSet<(TenantId, RunId)>>,
}

/// The properties of a commit by which bugs choose it.
struct Draft<'a> {
    keys: &'a RunKeys,
    commit: &'a Commit,
    /// The shard whose progress it compares.
    own: Option<ShardKey>,
    /// Whether it creates other shards.
    is_split: bool,
}

impl<'a> Draft<'a> {
    fn new(keys: &'a RunKeys, commit: &'a Commit) -> Self {
        let own = commit.expectations().iter().find_map(|it| match keys.parse(&it.key) {
            Some(StoreKey::Shard(_, key, ShardPart::Progress)) => Some(key),
            _ => None,
        });
        let is_split = own.is_some()
            && commit.writes().iter().any(|write| match keys.parse(write.key()) {
                Some(StoreKey::Shard(_, key, _)) => Some(key) != own,
                _ => false,
            });
        Self { keys, commit, own, is_split }
    }

    fn writes(&self, is: impl Fn(StoreKey) -> bool) -> bool {
        let mut writes = self.commit.writes().iter();
        writes.any(|write| self.keys.parse(write.key()).is_some_and(&is))
    }

    fn expects(&self, is: impl Fn(StoreKey) -> bool) -> bool {
        let mut expected = self.commit.expectations().iter();
        expected.any(|it| self.keys.parse(&it.key).is_some_and(&is))
    }

    fn uncompared(&self, is: impl Fn(StoreKey) -> bool) -> Option<Commit> {
        tamper::uncompared(self.commit, |key| self.keys.parse(key).is_some_and(&is))
    }

    /// The commit without some of its writes.
    fn without(&self, is: impl Fn(StoreKey, &Write) -> bool) -> Option<Commit> {
        let is = |write: &Write| self.keys.parse(write.key()).is_some_and(|key| is(key, write));
        tamper::rewritten(self.commit, |write| (!is(write)).then(|| write.clone()))
    }

    /// The commit with some writes bound to no session.
    fn unbound(&self, is: impl Fn(StoreKey) -> bool) -> Option<Commit> {
        let is = |write: &Write| self.keys.parse(write.key()).is_some_and(&is);
        tamper::rewritten(self.commit, |write| {
            Some(if is(write) { tamper::unbound(write) } else { write.clone() })
        })
    }

    /// The commit with other values under some keys.
    fn with_values(&self, change: impl Fn(StoreKey, &Bytes) -> Option<Bytes>) -> Option<Commit> {
        tamper::rewritten(self.commit, |write| {
            let Write::Put { key, value, session } = write else { return Some(write.clone()) };
            let changed = self.keys.parse(key).and_then(|place| change(place, value));
            let value = changed.unwrap_or_else(|| value.clone());
            Some(Write::Put { key: key.clone(), value, session: *session })
        })
    }
}

const fn is_progress(key: StoreKey) -> bool {
    matches!(key, StoreKey::Shard(_, _, ShardPart::Progress))
}

const fn is_definition(key: StoreKey) -> bool {
    matches!(key, StoreKey::Shard(_, _, ShardPart::Definition))
}

const fn is_gate(key: StoreKey) -> bool {
    matches!(key, StoreKey::View(_, _, ViewKey::Gate))
}

const fn is_owner(key: StoreKey) -> bool {
    matches!(key, StoreKey::View(_, _, ViewKey::Owner(_)))
}

const fn is_quota(key: StoreKey) -> bool {
    matches!(key, StoreKey::QuotaTenant(_) | StoreKey::QuotaTotal)
}

const fn is_counter(key: StoreKey) -> bool {
    is_quota(key) || matches!(key, StoreKey::Count(..))
}

const fn is_run(key: StoreKey) -> bool {
    matches!(key, StoreKey::Run(..))
}

const fn is_watermark(key: StoreKey) -> bool {
    matches!(key, StoreKey::Watermark(..))
}

/// The comparison that the current value of a key satisfies.
fn found(store: &MemoryStore, key: &Key) -> Expect {
    current(store, key).map_or(Expect::Absent, |found| Expect::At(found.revision))
}

impl StoredTamper {
    pub(crate) fn new(
        bug: StoredBug,
        keys: RunKeys,
        mark_interval_ms: u64,
        rumours: AddedEvents,
    ) -> Self {
        let (has_clock, staged) = (AtomicBool::new(false), Mutex::default());
        Self { bug, keys, mark_interval_ms, rumours, has_clock, staged }
    }

    /// The write of an unparked shard with the fence that it had when it was parked.
    fn with_parked_fence(&self, store: &MemoryStore, write: &Write) -> Option<Write> {
        let Write::Put { key, value, session } = write else { return None };
        self.keys.parse(key).filter(|key| is_progress(*key))?;
        let before = ProgressRecord::decode(&current(store, key)?.value).ok()?;
        let after = ProgressRecord::decode(value).ok()?;
        if (before.status, after.status) != (ShardStatus::Parked, ShardStatus::Active) {
            return None;
        }
        let value = ProgressRecord { fence: before.fence, ..after }.encode();
        Some(Write::Put { key: key.clone(), value, session: *session })
    }

    fn changed(&self, store: &MemoryStore, commit: &Commit) -> Option<Commit> {
        let draft = Draft::new(&self.keys, commit);
        let is_on_shard = draft.own.is_some();
        match self.bug {
            StoredBug::ProgressUncompared => draft.uncompared(is_progress),
            StoredBug::SplitUncompared if draft.is_split => draft.uncompared(is_progress),
            StoredBug::GateUncompared if is_on_shard => draft.uncompared(is_gate),
            StoredBug::BindingUncompared | StoredBug::LiveOwnerOverthrown => {
                draft.uncompared(is_owner)
            }
            StoredBug::HolderParked if self.parks(commit) => draft.uncompared(is_owner),
            // Any other commit that expects no owner compares the current owner instead.
            StoredBug::HolderParked => tamper::rebuilt(
                commit,
                |it| match self.keys.parse(&it.key) {
                    Some(key) if is_owner(key) && it.expect == Expect::Absent => {
                        Some(found(store, &it.key))
                    }
                    _ => Some(it.expect),
                },
                |write| Some(write.clone()),
            ),
            StoredBug::UnparkKeepsFence => tamper::rewritten(commit, |write| {
                Some(self.with_parked_fence(store, write).unwrap_or_else(|| write.clone()))
            }),
            StoredBug::QuotaUncompared => draft.uncompared(is_counter),
            StoredBug::WatermarkGoesBack => draft.uncompared(is_watermark),
            StoredBug::BindingOutlivesSession => draft.unbound(is_owner),
            StoredBug::RequestOutlivesRequester => draft.unbound(|key| {
                matches!(
                    key,
                    StoreKey::View(_, _, ViewKey::SplitRequest(_) | ViewKey::Requester(_))
                )
            }),
            StoredBug::EndedSessionIgnored => tamper::rebuilt(
                commit,
                |it| {
                    Some(if it.expect == Expect::At(MADE_UP) { Expect::Absent } else { it.expect })
                },
                |write| Some(write.clone()),
            ),
            StoredBug::DefinitionAlone if is_on_shard && draft.writes(is_definition) => draft
                .without(|key, _| match key {
                    StoreKey::Shard(_, shard, ShardPart::Progress) => Some(shard) == draft.own,
                    _ => false,
                }),
            StoredBug::OpenKeyKept => draft.without(|key, write| {
                let is_open = matches!(key, StoreKey::View(_, _, ViewKey::Open(_)));
                is_on_shard && is_open && matches!(write, Write::Delete { .. })
            }),
            _ => self.changed_besides(&draft),
        }
    }

    fn changed_besides(&self, draft: &Draft<'_>) -> Option<Commit> {
        match self.bug {
            StoredBug::SplitUncounted if draft.is_split => tamper::rebuilt(
                draft.commit,
                |it| (!self.keys.parse(&it.key).is_some_and(is_counter)).then_some(it.expect),
                |write| {
                    let is_counter = self.keys.parse(write.key()).is_some_and(is_counter);
                    (!is_counter).then(|| write.clone())
                },
            ),
            StoredBug::ReservationKept if draft.writes(is_run) => {
                let deletes_run = draft.commit.writes().iter().any(|write| {
                    let is_run = self.keys.parse(write.key()).is_some_and(is_run);
                    is_run && matches!(write, Write::Delete { .. })
                });
                if deletes_run { draft.without(|key, _| is_quota(key)) } else { None }
            }
            StoredBug::StageKept if draft.writes(is_run) => draft.without(|key, write| {
                matches!((key, write), (StoreKey::Stage(..), Write::Delete { .. }))
            }),
            StoredBug::RunDeletedFirst => tamper::rewritten(draft.commit, |write| {
                Some(match write {
                    Write::Put { key, value, .. } if self.is_mark(key, value) => {
                        Write::Delete { key: key.clone() }
                    }
                    _ => write.clone(),
                })
            }),
            StoredBug::GateNotWritten if draft.writes(is_run) && self.is_known_run(draft) => {
                draft.without(|key, _| is_gate(key))
            }
            StoredBug::MarkRunsAhead => draft.with_values(|key, value| {
                let mark = ClockMarkRecord::decode(value)
                    .ok()
                    .filter(|_| key == StoreKey::Meta(MetaKey::Clock))?;
                let reserved_until = mark.reserved_until.saturating_add(self.mark_interval_ms);
                Some(ClockMarkRecord { reserved_until }.encode())
            }),
            StoredBug::WaitingGarbled => draft.with_values(|key, value| {
                let is_waiting = matches!(key, StoreKey::View(_, _, ViewKey::Waiting(_)));
                is_waiting.then(|| value.slice(..value.len() / 2))
            }),
            StoredBug::DeclineDeletes => tamper::rewritten(draft.commit, |write| {
                Some(match write {
                    Write::Put { key, value, .. } if self.is_decline(key, value) => {
                        Write::Delete { key: key.clone() }
                    }
                    _ => write.clone(),
                })
            }),
            StoredBug::WaitRepeats => self.repeatable_wait(draft.commit),
            _ => None,
        }
    }

    /// Whether a commit parks a shard.
    fn parks(&self, commit: &Commit) -> bool {
        commit.writes().iter().any(|write| match write {
            Write::Put { key, value, .. } => {
                self.keys.parse(key).is_some_and(is_progress)
                    && ProgressRecord::decode(value)
                        .is_ok_and(|it| it.status == ShardStatus::Parked)
            }
            Write::Delete { .. } => false,
        })
    }

    /// Whether a write marks a run as being collected.
    fn is_mark(&self, key: &Key, value: &[u8]) -> bool {
        self.keys.parse(key).is_some_and(is_run)
            && RunHeadRecord::decode(value).is_ok_and(|run| run.collecting)
    }

    fn is_decline(&self, key: &Key, value: &[u8]) -> bool {
        matches!(self.keys.parse(key), Some(StoreKey::View(_, _, ViewKey::SplitRequest(_))))
            && SplitRequestRecord::decode(value)
                .is_ok_and(|ask| ask.slot.open.is_none() && ask.slot.not_before.is_some())
    }

    /// Whether a commit changes an existing run.
    fn is_known_run(&self, draft: &Draft<'_>) -> bool {
        let is_known = |it: &Expectation| {
            self.keys.parse(&it.key).is_some_and(is_run) && it.expect != Expect::Absent
        };
        draft.commit.expectations().iter().any(is_known)
    }

    /// The commit, changed so that it can apply twice.
    fn repeatable_wait(&self, commit: &Commit) -> Option<Commit> {
        let asker =
            commit.writes().iter().find_map(|write| match self.keys.parse(write.key()) {
                Some(StoreKey::View(tenant, run, ViewKey::Waiting(worker)))
                    if matches!(write, Write::Put { .. }) =>
                {
                    Some(self.keys.requester(tenant, run, worker))
                }
                _ => None,
            })?;
        let mut builder = Commit::builder().expect(asker.clone(), Expect::Absent).delete(asker);
        for Expectation { key, expect } in commit.expectations() {
            builder = builder.guard(key.clone(), *expect);
        }
        for write in commit.writes() {
            builder = builder.write(write.clone());
        }
        builder.build().ok()
    }

    /// Whether a commit stages further shards of a run.
    fn is_later_chunk(&self, commit: &Commit) -> bool {
        let draft = Draft::new(&self.keys, commit);
        let is_stage = |key| matches!(key, StoreKey::Stage(..));
        if !draft.expects(is_stage) || draft.writes(is_stage) || !draft.writes(is_definition) {
            return false;
        }
        let run = commit.writes().iter().find_map(|write| match self.keys.parse(write.key()) {
            Some(StoreKey::Shard(tenant, key, _)) => Some((tenant, key.run)),
            _ => None,
        });
        let mut staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
        // Staging only puts keys. Clearing an earlier stage deletes them.
        let puts = commit.writes().iter().all(|write| matches!(write, Write::Put { .. }));
        puts && run.is_some_and(|run| !staged.insert(run))
    }

    fn publish_early(&self, commit: &Commit) {
        for write in commit.writes() {
            let Write::Put { key, value, .. } = write else { continue };
            let Some(StoreKey::View(tenant, run, ViewKey::Owner(shard))) = self.keys.parse(key)
            else {
                continue;
            };
            let Ok(BindingRecord { owner: worker, fence: fence_epoch, .. }) =
                BindingRecord::decode(value)
            else {
                continue;
            };
            let kind = EventKind::ShardAcquired { shard, worker, fence_epoch };
            let event = StateTransitionEvent { tenant, run, at: LogicalTime::ZERO, kind };
            self.rumours.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
    }

    /// The owner of a shard as a bug reads it.
    fn owner(
        &self,
        progress: Option<&ProgressRecord>,
        gate: Option<&RunStateRecord>,
        owner: Option<Versioned>,
    ) -> Option<Versioned> {
        let max = gate.and_then(|gate| gate.config.max_shard_retries);
        let max = max.map_or(u32::MAX, NonZeroU32::get);
        match self.bug {
            StoredBug::LiveOwnerOverthrown => None,
            StoredBug::HolderParked
                if progress.is_some_and(|it| it.acquires_without_progress >= max) =>
            {
                None
            }
            StoredBug::EndedSessionIgnored if owner.is_none() => {
                let ProgressRecord { fence, lease, .. } = progress?;
                let lease = (*lease)?;
                let (owner, deadline) = (lease.owner, lease.deadline);
                let value = BindingRecord { owner, fence: *fence, deadline }.encode();
                Some(Versioned { value, revision: MADE_UP, session: None, is_damaged: false })
            }
            _ => owner,
        }
    }
}

/// The record of an active run, changed to an ended one.
fn as_ended(value: &[u8]) -> Option<Bytes> {
    let run = RunHeadRecord::decode(value).ok().filter(|run| run.status == RunStatus::Active)?;
    let completed_at = Some(run.created_at);
    Some(RunHeadRecord { status: RunStatus::Done, paused: false, completed_at, ..run }.encode())
}

fn with_longer_lease(value: &[u8]) -> Option<Bytes> {
    let binding = BindingRecord::decode(value).ok()?;
    let deadline = binding.deadline.saturating_add(AN_HOUR_MS);
    Some(BindingRecord { deadline, ..binding }.encode())
}

impl Tamper for StoredTamper {
    fn commit(&self, store: &MemoryStore, commit: Commit) -> Option<Commit> {
        if self.bug == StoredBug::PublishedBeforeStored {
            self.publish_early(&commit);
        }
        if self.bug == StoredBug::StartedBeforeStaged && self.is_later_chunk(&commit) {
            return None;
        }
        Some(self.changed(store, &commit).unwrap_or(commit))
    }

    fn outcome(
        &self,
        store: &MemoryStore,
        outcome: Result<Revision, CommitError>,
    ) -> Result<Revision, CommitError> {
        match (self.bug, outcome) {
            (StoredBug::UnknownReturnedAsDone, Err(CommitError::Unknown(_))) => {
                Ok(store.revision())
            }
            (StoredBug::UnknownReturnedAsNotApplied, Err(CommitError::Unknown(_))) => {
                let fault = Fault::new(FaultKind::Unreachable, "the store accepts no commit");
                Err(CommitError::NotApplied(fault))
            }
            (_, outcome) => outcome,
        }
    }

    fn loaded(&self, keys: &[Key], mut snapshot: Snapshot) -> Snapshot {
        let mut places = Vec::with_capacity(keys.len());
        let (mut progress, mut gate) = (None, None);
        for (key, value) in keys.iter().zip(&snapshot.values) {
            let place = self.keys.parse(key);
            let value = value.as_ref().map(|found| &found.value);
            match (place, value) {
                (Some(place), Some(value)) if is_progress(place) => {
                    progress = ProgressRecord::decode(value).ok();
                }
                (Some(place), Some(value)) if is_gate(place) => {
                    gate = RunStateRecord::decode(value).ok()
                }
                _ => {}
            }
            places.push(place);
        }
        for (place, value) in places.into_iter().zip(&mut snapshot.values) {
            match place {
                Some(place) if is_owner(place) => {
                    *value = self.owner(progress.as_ref(), gate.as_ref(), value.take());
                }
                Some(StoreKey::Watermark(..)) if self.bug == StoredBug::WatermarkGoesBack => {
                    *value = None;
                }
                Some(StoreKey::Meta(MetaKey::Clock))
                    if self.bug == StoredBug::ClockGoesBack
                        && !self.has_clock.swap(true, Ordering::Relaxed) =>
                {
                    *value = None;
                }
                _ => {}
            }
        }
        snapshot
    }

    fn scanned(&self, mut page: ScanPage) -> ScanPage {
        for (key, found) in &mut page.entries {
            let Some(key) = self.keys.parse(key) else { continue };
            let changed = match self.bug {
                StoredBug::ActiveCollected if is_run(key) => as_ended(&found.value),
                StoredBug::LeasesReadAsLonger if is_owner(key) => with_longer_lease(&found.value),
                _ => None,
            };
            found.value = changed.unwrap_or_else(|| found.value.clone());
        }
        page
    }

    fn swallows_gaps(&self) -> bool {
        self.bug == StoredBug::RelistSkipped
    }
}
