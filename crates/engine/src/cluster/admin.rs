//! What operators ask for, from any process.
//!
//! It is stored at once, whoever leads and whether anybody does. Like the leader's writes it
//! follows one version of the targets, so neither loses what the other wrote: whoever comes second
//! decides anew.

use shardwright_contracts::{LogicalTime, ShardId};
use shardwright_coordination::InfraError;
use shardwright_placement::ops::{FreezeRefused, PinRefused, ReassignRefused, freeze, pin};
use shardwright_placement::ops::{reassign, unpin};
use shardwright_placement::{Membership, NodeAddress, ShardMap, TargetUpdate, TargetVersion};
use shardwright_store::{Commit, Expect};

use super::attempt::Tried;
use super::error::AdminError;
use super::handle::Cluster;
use super::targets::Written;
use crate::codec::{DrainMark, Record};
use crate::fault;
use crate::keyspace::ClusterKey;
use crate::operate::back_off;

const ADMIN: &str = "cluster.admin";

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

    /// Lets a shard be moved again.
    pub async fn unpin(&self, shard: ShardId) -> Result<TargetVersion, AdminError<PinRefused>> {
        self.change_targets(None, |map, _, _| unpin(map, shard)).await
    }

    /// Stops everything that is moved for balance, or lets it go on.
    pub async fn set_frozen(
        &self,
        frozen: bool,
    ) -> Result<TargetVersion, AdminError<FreezeRefused>> {
        self.change_targets(None, |map, _, _| freeze(map, frozen)).await
    }

    /// Wants a node empty, or not any more. Tells whether that is new.
    ///
    /// It holds for the address, whatever becomes of the node: one that restarts while it is being
    /// emptied, or comes back before somebody says that it may, gets no shards.
    pub async fn set_drained(&self, node: &NodeAddress, drained: bool) -> Result<bool, InfraError> {
        let core = &self.core;
        let key = ClusterKey::Drain(node.clone());
        let stored_key = core.keys.key(&key);
        core.reload(ADMIN, [key.clone()]).await?;
        for tries in 0..=core.options.conflict_retries {
            back_off(&core.env, tries).await;
            let expected = core.lock().expect(&key);
            let commit = Commit::builder().expect(stored_key.clone(), expected);
            let commit = match (drained, expected) {
                (true, Expect::At(_)) | (false, Expect::Absent) => {
                    core.publish();
                    return Ok(false);
                }
                (true, Expect::Absent) => commit.put(stored_key.clone(), DrainMark.encode()),
                (false, Expect::At(_)) => commit.delete(stored_key.clone()),
            };
            match core.commit(ADMIN, commit).await? {
                Tried::Stored(_) => {
                    core.publish();
                    return Ok(true);
                }
                Tried::Conflict | Tried::Overtaken | Tried::SessionGone => {
                    core.reload(ADMIN, [key.clone()]).await?;
                }
            }
        }
        Err(fault::contention(ADMIN))
    }

    /// Changes targets as `decide` says, however often others come between, up to a bound.
    async fn change_targets<R>(
        &self,
        to: Option<&NodeAddress>,
        decide: impl Fn(&ShardMap, &Membership, LogicalTime) -> Result<TargetUpdate, R> + Send,
    ) -> Result<TargetVersion, AdminError<R>> {
        let core = &self.core;
        let (mut is_fresh, mut is_overtaken) = (false, false);
        for tries in 0..=core.options.conflict_retries {
            back_off(&core.env, tries).await;
            let basis = core.lock().basis(false, to);
            let update = decide(&basis.map, &basis.members, core.now());
            let is_unreadable = |update: &TargetUpdate| {
                basis.is_unreadable()
                    || update.changes.iter().any(|change| basis.is_quarantined(change.shard))
            };
            let update = match update {
                Ok(update) if !is_unreadable(&update) => update,
                // What is known may be out of date: decide again on what is stored.
                Ok(_) | Err(_) if !is_fresh => {
                    core.refresh().await?;
                    is_fresh = true;
                    continue;
                }
                Ok(_) => return Err(AdminError::Unreadable),
                // It may be refused because it was done: nobody can tell.
                Err(_) if is_overtaken => return Err(unknown().into()),
                Err(refused) => return Err(AdminError::Refused(refused)),
            };
            let written = core.write_targets(&basis, &update).await;
            core.publish();
            match written? {
                Written::All(version, _) => return Ok(version),
                written @ (Written::Moved | Written::Overtaken) => {
                    is_overtaken |= written == Written::Overtaken;
                    core.refresh().await?;
                    is_fresh = true;
                }
            }
        }
        Err(fault::contention(ADMIN).into())
    }
}

fn unknown() -> InfraError {
    let message = "others wrote targets after an answer was lost".into();
    InfraError::Unknown { operation: ADMIN, message }
}
