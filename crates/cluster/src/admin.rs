//! Requests of operators, from any process.
//!
//! A request is stored at once, with or without a leader. Like the leader's writes it follows one
//! version of the targets, so neither overwrites the other. The second writer decides again.

use std::convert::Infallible;

use shardwright_contracts::{InfraError, LogicalTime, ShardId};
use shardwright_engine::codec::Record;
use shardwright_engine::transact::{self, Decided, Decision, Driver, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_placement::ops::{FreezeRefused, PinRefused, ReassignRefused, freeze, pin};
use shardwright_placement::ops::{reassign, unpin};
use shardwright_placement::{Membership, NodeAddress, ShardMap, TargetUpdate, TargetVersion};
use shardwright_store::{Commit, Expect, Revision};

use super::error::{AdminError, Gone};
use super::handle::Cluster;
use super::shared::Core;
use super::targets::{Basis, Writing};
use crate::keys::ClusterKey;
use crate::records::DrainMarkRecord;

const ADMIN: Operation = operation!("cluster.admin");

impl Cluster {
    /// Moves a shard to a node.
    pub async fn move_shard(
        &self,
        shard: ShardId,
        to: &NodeAddress,
    ) -> Result<TargetVersion, AdminError<ReassignRefused>> {
        self.change_targets(Some(to), |map, members, now| reassign(map, members, shard, to, now))
            .await
    }

    /// Pins a shard to a node, or to where it should be now.
    pub async fn pin(
        &self,
        shard: ShardId,
        to: Option<&NodeAddress>,
    ) -> Result<TargetVersion, AdminError<PinRefused>> {
        self.change_targets(to, |map, members, now| pin(map, members, shard, to, now)).await
    }

    /// Allows a shard to be moved again.
    pub async fn unpin(&self, shard: ShardId) -> Result<TargetVersion, AdminError<PinRefused>> {
        self.change_targets(None, |map, _, _| unpin(map, shard)).await
    }

    /// Stops or resumes moves for balance.
    pub async fn set_frozen(
        &self,
        frozen: bool,
    ) -> Result<TargetVersion, AdminError<FreezeRefused>> {
        self.change_targets(None, |map, _, _| freeze(map, frozen)).await
    }

    /// Orders that a node be emptied, or revokes the order. Returns whether that changes anything.
    ///
    /// The order applies to the address until it is revoked. A node that restarts or rejoins gets
    /// no shards.
    pub async fn set_drained(
        &self,
        node: &NodeAddress,
        drained: bool,
    ) -> Result<bool, AdminError<Infallible>> {
        let key = ClusterKey::Drain(node.clone());
        let mut draining = Draining { core: &self.core, key, drained, gone: None };
        self.core.driver.transact(&mut draining).await
    }

    /// Changes targets as `decide` returns, and retries up to a limit if other writers interfere.
    async fn change_targets<R: Send, D>(
        &self,
        to: Option<&NodeAddress>,
        decide: D,
    ) -> Result<TargetVersion, AdminError<R>>
    where
        D: Fn(&ShardMap, &Membership, LogicalTime) -> Result<TargetUpdate, R> + Send + Sync,
    {
        let mut change = TargetChange {
            core: &self.core,
            to,
            rule: decide,
            overtaken: None,
            gone: None,
            writing: None,
        };
        self.core.driver.transact(&mut change).await
    }
}

impl Core {
    /// Why a request may not be decided again, if its commit was not stored.
    fn gone(&self, settled: &Settled) -> Option<Gone> {
        let Settled::Conflict(conflict) = settled else { return None };
        self.learn_existence(conflict).err()
    }
}

/// Sets or removes the mark that a node is to be emptied.
struct Draining<'c> {
    core: &'c Core,
    key: ClusterKey,
    drained: bool,
    gone: Option<Gone>,
}

impl Transaction for Draining<'_> {
    type Basis = Expect;
    type Answer = bool;
    type Output = bool;
    type Error = AdminError<Infallible>;

    fn operation(&self) -> Operation {
        ADMIN
    }

    async fn load(&mut self, read: Read) -> Result<(Expect, Read), InfraError> {
        self.core.reload(ADMIN, [self.key.clone()]).await?;
        Ok((self.core.lock().expect(&self.key), read))
    }

    async fn decide(&mut self, found: &Expect) -> Decided<bool, AdminError<Infallible>> {
        if let Some(gone) = self.gone.take() {
            return Ok(Decision::Refuse(gone.into()));
        }
        let key = self.core.keys.key(&self.key);
        let commit = self.core.existence.get().compare_in(&self.core.keys, Commit::builder());
        let commit = commit.expect(key.clone(), *found);
        Ok(match (self.drained, found) {
            (true, Expect::At(_)) | (false, Expect::Absent) => Decision::Answer(false),
            (true, Expect::Absent) => {
                Decision::Commit(commit.put(key, DrainMarkRecord.encode()), true)
            }
            (false, Expect::At(_)) => Decision::Commit(commit.delete(key), true),
        })
    }

    fn not_stored(&mut self, _: bool, settled: &Settled) {
        self.gone = self.core.gone(settled);
    }

    fn finish(&mut self, _: Expect, is_new: bool, stored: Option<(&Commit, Revision)>) -> bool {
        self.core.note_stored(stored);
        self.core.publish();
        is_new
    }
}

/// A change of targets that an operator requests.
struct TargetChange<'c, F> {
    core: &'c Core,
    to: Option<&'c NodeAddress>,
    rule: F,
    overtaken: Option<InfraError>,
    gone: Option<Gone>,
    writing: Option<Writing>,
}

impl<R, F> Transaction for TargetChange<'_, F>
where
    R: Send,
    F: Fn(&ShardMap, &Membership, LogicalTime) -> Result<TargetUpdate, R> + Send + Sync,
{
    type Basis = Basis;
    type Answer = TargetVersion;
    type Output = TargetVersion;
    type Error = AdminError<R>;

    fn operation(&self) -> Operation {
        ADMIN
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<(Basis, Read), InfraError> {
        if read == Read::Fresh {
            self.core.refresh().await?;
        }
        let existence = self.core.existence.get();
        Ok((self.core.lock().operator_basis(existence, self.to), read))
    }

    async fn decide(&mut self, basis: &Basis) -> Decided<TargetVersion, AdminError<R>> {
        if let Some(gone) = self.gone.take() {
            return Ok(Decision::Refuse(gone.into()));
        }
        let update = match (self.rule)(&basis.map, &basis.members, self.core.now()) {
            Ok(update) => update,
            // The refusal may be caused by an earlier attempt that was stored.
            Err(refused) => {
                return transact::refuse(AdminError::Refused(refused), self.overtaken.as_ref());
            }
        };
        let is_quarantined = |shard| basis.is_quarantined(shard);
        if basis.is_unreadable() || update.changes.iter().any(|change| is_quarantined(change.shard))
        {
            return Ok(Decision::Refuse(AdminError::Unreadable));
        }
        let (commit, writing) = self.core.begin_targets(basis, update)?;
        let version = writing.version;
        self.writing = Some(writing);
        Ok(Decision::Commit(commit, version))
    }

    async fn commit(&mut self, _: &Driver, commit: &Commit) -> Result<Settled, InfraError> {
        let written = self.core.write_targets(self.writing.as_mut(), commit).await;
        self.core.publish();
        written
    }

    fn not_stored(&mut self, _: TargetVersion, settled: &Settled) {
        if let Settled::Overtaken(error) = settled {
            self.overtaken = Some(error.clone());
        }
        self.gone = self.core.gone(settled);
    }

    fn finish(
        &mut self,
        _: Basis,
        version: TargetVersion,
        _: Option<(&Commit, Revision)>,
    ) -> TargetVersion {
        self.writing.take().map_or(version, |writing| writing.version)
    }
}
