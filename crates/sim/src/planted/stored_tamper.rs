//! Bugs between a process of the stored engine and the store.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_contracts::{LogicalTime, RunId, TenantId};
use shardwright_coordination::{EventKind, ShardStatus, StateTransitionEvent};
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
use super::stored_draft::{
    Draft, is_counter, is_definition, is_gate, is_owner, is_progress, is_quota, is_run,
    is_watermark,
};
use super::stored_values as values;
use super::tamper::{self, Tamper};
use crate::runtime::direct::current;

/// The revision of values that a bug invents.
const MADE_UP: Revision = Revision::new(u64::MAX);

/// Events that a bug adds.
pub(crate) type AddedEvents = Arc<Mutex<Vec<StateTransitionEvent>>>;

/// A bug on the link of one process, for one life of the process.
pub(crate) struct StoredTamper {
    pub(crate) bug: StoredBug,
    pub(crate) keys: RunKeys,
    pub(crate) mark_interval_ms: u64,
    pub(crate) rumours: AddedEvents,
    has_clock: AtomicBool,
    has_damage: AtomicBool,
    staged: Mutex<BTreeSet<(TenantId, RunId)>>,
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
        let [has_clock, has_damage] = [false; 2].map(AtomicBool::new);
        let staged = Mutex::default();
        Self { bug, keys, mark_interval_ms, rumours, has_clock, has_damage, staged }
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
            StoredBug::ChildStartsLate => draft.with_values(|key, value| match key {
                StoreKey::Shard(_, shard, ShardPart::Definition) if Some(shard) != draft.own => {
                    values::without_first_key(value).filter(|_| draft.is_split)
                }
                _ => None,
            }),
            StoredBug::WatermarkAhead => {
                draft.with_values(|key, value| values::further(value).filter(|_| is_watermark(key)))
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

    /// Changes the value that a load found under a key of a run or of a shard's progress.
    fn misread(&self, key: StoreKey, found: &mut Option<Versioned>) {
        let Some(found) = found else { return };
        let changed = match self.bug {
            StoredBug::EndedReadAsActive if is_run(key) => values::as_active(&found.value),
            StoredBug::CursorUnread if is_progress(key) => values::without_cursor(&found.value),
            StoredBug::DamageSpreads if is_progress(key) => {
                let is_damaged = ProgressRecord::decode(&found.value).is_err();
                let spreads = self.has_damage.fetch_or(is_damaged, Ordering::Relaxed);
                spreads.then(|| found.value.slice(..found.value.len() / 2))
            }
            _ => None,
        };
        if let Some(changed) = changed {
            found.value = changed;
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

impl Tamper for StoredTamper {
    fn commit(&self, store: &MemoryStore, commit: Commit) -> Option<Commit> {
        if self.bug == StoredBug::PublishedBeforeStored {
            self.publish_early(&commit);
        }
        let is_dropped = match self.bug {
            StoredBug::StartedBeforeStaged => self.is_later_chunk(&commit),
            StoredBug::GrantDropped => {
                let draft = Draft::new(&self.keys, &commit);
                draft.own.is_some() && draft.puts(is_owner)
            }
            _ => false,
        };
        if is_dropped {
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
                Some(place) if is_progress(place) || is_run(place) => self.misread(place, value),
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
                StoredBug::ActiveCollected if is_run(key) => values::as_ended(&found.value),
                StoredBug::LeasesReadAsLonger if is_owner(key) => {
                    values::with_longer_lease(&found.value)
                }
                StoredBug::UnfinishedReadAsDone if is_progress(key) => {
                    values::as_done(&found.value)
                }
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
