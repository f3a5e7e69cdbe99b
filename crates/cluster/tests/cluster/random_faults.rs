//! Random faults: lost answers, late commits, ended sessions and broken watches, while several
//! processes work. The checks follow the history of the store, revision by revision.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_cluster::keys::ClusterKeys;
use shardwright_cluster::records::{ShardClaimRecord, TargetChunkRecord, TargetHeadRecord};
use shardwright_cluster::{Cluster, ClusterKey, Layout, ShardRelease};
use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_engine::codec::Record;
use shardwright_placement::ops::ReleaseReason;
use shardwright_placement::seed_format::SeedShard;
use shardwright_placement::{Incarnation, NodeAddress, NodeInstance, ShardDuties};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{ChangeSet, Revision, StoreRange};

use crate::flaky::{FlakyStore, Reaction};
use crate::site::{Node, SHARDS, Site, TTL, node, shard};

type Store = FlakyStore<MemoryStore>;

/// One process.
struct Process {
    address: &'static str,
    store: Store,
    cluster: Cluster,
    member: Option<Node>,
}

/// Stored claim of a shard, in either format.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    by: Option<(NodeAddress, Option<Incarnation>)>,
    fence: u64,
}

/// Follows the history of the store.
struct Auditor {
    keys: ClusterKeys,
    seen: Revision,
    members: BTreeMap<NodeAddress, Revision>,
    shards: BTreeMap<ShardId, Held>,
    version: u64,
    /// Every claim in the history.
    claims: BTreeSet<(ShardId, u64, NodeAddress)>,
}

impl Auditor {
    fn new(site: &Site) -> Self {
        Self {
            keys: site.options().cluster_keys().unwrap(),
            seen: Revision::ZERO,
            members: BTreeMap::new(),
            shards: BTreeMap::new(),
            version: 0,
            claims: BTreeSet::new(),
        }
    }

    fn look(&mut self, site: &Site) {
        let now = site.store.revision();
        let range = StoreRange::prefix("");
        let sets = site.store.inspect(|state| state.changes(&range, self.seen, now)).unwrap();
        for set in &sets {
            self.judge(set);
        }
        self.seen = now;
    }

    fn judge(&mut self, set: &ChangeSet) {
        let changes: Vec<_> = set
            .changes
            .iter()
            .filter_map(|change| Some((self.keys.parse(&change.key)?, change.now.as_ref())))
            .collect();
        let before = self.members.clone();
        let is_headed = changes.iter().any(|(key, _)| *key == ClusterKey::TargetHead);
        for (key, now) in &changes {
            match (key, now) {
                (ClusterKey::Shard(shard), Some(found)) => {
                    let held = self.read(&found.value, found.revision);
                    self.judge_shard(*shard, held, &before);
                }
                (ClusterKey::Shard(_), None) => panic!("a claim was deleted"),
                (ClusterKey::TargetHead, Some(found)) => {
                    let version = TargetHeadRecord::decode(&found.value).unwrap().header.version;
                    assert_eq!(version.as_raw(), self.version + 1, "a version was skipped");
                    self.version += 1;
                }
                (ClusterKey::TargetChunk(_), Some(found)) => {
                    assert!(is_headed, "targets were written without their header");
                    TargetChunkRecord::decode(&found.value).unwrap();
                }
                (ClusterKey::Member(node), Some(found)) => {
                    assert!(!before.contains_key(node), "two incarnations are members at once");
                    let is_of = |held: &Held| held.by.as_ref().is_some_and(|(one, _)| one == node);
                    let left = self.shards.values().any(is_of);
                    assert!(!(self.keys.is_text() && left), "a new incarnation holds a shard");
                    self.members.insert(node.clone(), found.revision);
                }
                (ClusterKey::Member(node), None) => {
                    self.members.remove(node);
                }
                _ => {}
            }
        }
    }

    fn read(&self, value: &[u8], at: Revision) -> Held {
        if self.keys.is_text() {
            let text = SeedShard::parse(str::from_utf8(value).unwrap()).unwrap();
            return Held { by: text.current.map(|node| (node, None)), fence: at.get() };
        }
        let claim = ShardClaimRecord::decode(value).unwrap().claim;
        let by = claim.holder.map(|holder| (holder.address, Some(holder.incarnation)));
        Held { by, fence: claim.fence.as_raw() }
    }

    fn judge_shard(
        &mut self,
        shard: ShardId,
        now: Held,
        members: &BTreeMap<NodeAddress, Revision>,
    ) {
        let is_live = |(node, incarnation): &(NodeAddress, Option<Incarnation>)| {
            let member = members.get(node);
            member.is_some_and(|at| {
                incarnation.is_none_or(|incarnation| incarnation.as_raw() == at.get())
            })
        };
        let before = self.shards.get(&shard);
        let former = before.and_then(|held| held.by.as_ref());
        let fence = before.map_or(0, |held| held.fence);
        match &now.by {
            // Only the target has changed.
            Some(_) if self.keys.is_text() && former == now.by.as_ref() => {}
            Some(holder) => {
                assert!(is_live(holder), "a node claimed without being a member");
                assert!(
                    former.is_none_or(|former| !is_live(former)),
                    "a shard was claimed from a member"
                );
                assert!(now.fence > fence, "a claim did not raise the fence");
            }
            None => assert!(now.fence >= fence, "the fence decreased"),
        }
        if let Some((node, _)) = &now.by {
            self.claims.insert((shard, now.fence, node.clone()));
        }
        self.shards.insert(shard, now);
    }
}

struct FaultRun {
    site: Site,
    rng: fastrand::Rng,
    auditor: Auditor,
    processes: Vec<Process>,
    /// Nodes whose session the store ended early. Only fences stop them.
    ended_early: BTreeSet<NodeInstance>,
}

impl FaultRun {
    fn new(site: Site, seed: u64) -> Self {
        let processes = ["a:1", "b:1", "c:1"].map(|address| {
            let (cluster, store) = site.flaky();
            Process { address, store, cluster, member: None }
        });
        let auditor = Auditor::new(&site);
        let rng = fastrand::Rng::with_seed(seed);
        let processes = processes.into_iter().collect();
        Self { site, rng, auditor, processes, ended_early: BTreeSet::new() }
    }

    fn step(&mut self) {
        let at = self.rng.usize(..self.processes.len());
        match self.rng.u32(..26) {
            0..3 => self.join(at),
            3 => self.leave(at),
            4 => self.crash(at),
            5..11 => self.work(at),
            11..13 => self.claim_any(at),
            13..17 => self.lead(at),
            17..19 => self.operate(at),
            19 if self.rng.bool() => self.end_session_early(at),
            19 => self.site.store.break_watches(),
            20 if self.rng.bool() => self.site.store.hold_watches(),
            20 | 21 => self.site.store.release_watches(),
            22 => self.script_faults(at),
            23 => {
                let store = self.processes[at].store.clone();
                self.site.run(store.deliver_late());
            }
            _ => self.site.pass(std::time::Duration::from_millis(self.rng.u64(100..4_000))),
        }
        self.site.world.run_tasks();
        self.auditor.look(&self.site);
        self.assert_one_server_per_shard();
    }

    fn join(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let address = node(process.address);
        // A joining node waits for its earlier incarnation, and here time passes only between
        // steps.
        let is_free = !self.auditor.members.contains_key(&address);
        if process.member.is_none() && is_free {
            let joining = process.cluster.join(address, std::num::NonZeroU32::MIN);
            process.member = self.site.world.run_or_drop(joining).and_then(Result::ok);
        }
    }

    fn leave(&mut self, at: usize) {
        if let Some(member) = self.processes[at].member.take() {
            // If closing fails, the session expires.
            let _left = self.site.run(member.leave());
        }
    }

    /// Drops a process without leaving, and starts another.
    fn crash(&mut self, at: usize) {
        let store = self.processes[at].store.clone();
        self.processes[at].member = None;
        store.next([]);
        self.processes[at].cluster = self.site.cluster_over(store);
    }

    /// Performs a node's duties for its shards.
    fn work(&mut self, at: usize) {
        let Process { cluster, member: Some(member), .. } = &self.processes[at] else { return };
        let (view, holder) = (cluster.view(), member.holder());
        let duties =
            ShardDuties::of(&view.map, holder, &view.members, cluster.fence_floor(), false);
        let claimed = self.site.run(member.claim(&duties.claim));
        for (shard, fence) in claimed {
            if let Ok(fence) = fence {
                self.auditor.look(&self.site);
                let claim = (shard, fence.as_raw(), holder.address.clone());
                assert!(self.auditor.claims.contains(&claim), "a reported result is not stored");
            }
        }
        let fences: BTreeMap<_, _> = view.held_by(holder).collect();
        let released = duties.give_up.iter().filter_map(|shard| {
            let fence = *fences.get(shard)?;
            Some(ShardRelease { shard: *shard, fence, objects: 0, why: ReleaseReason::Moved })
        });
        let released: Vec<_> = released.collect();
        for (shard, outcome) in self.site.run(member.release(&released)) {
            if outcome.is_ok() {
                self.auditor.look(&self.site);
                let held = self.auditor.shards.get(&shard).unwrap();
                let fence = fences[&shard].as_raw();
                let own = Some((holder.address.clone(), Some(holder.incarnation)));
                assert!(held.by != own || held.fence > fence, "a reported result is not stored");
            }
        }
    }

    fn claim_any(&mut self, at: usize) {
        let Process { member: Some(member), .. } = &self.processes[at] else { return };
        let any = shard(self.rng.u64(..u64::from(SHARDS)));
        let _answer = self.site.run(member.claim(&[any]));
    }

    fn lead(&mut self, at: usize) {
        let Process { member: Some(member), .. } = &self.processes[at] else { return };
        let _answer = self.site.run(member.try_lead());
        // Also if the node does not lead.
        let _answer = self.site.run(member.lead_step(None));
        if self.rng.u32(..6) == 0 {
            let _answer = self.site.run(member.resign());
        }
    }

    fn operate(&mut self, at: usize) {
        let cluster = &self.processes[at].cluster;
        let any = shard(self.rng.u64(..u64::from(SHARDS)));
        let to = node(["a:1", "b:1", "c:1"][self.rng.usize(..3)]);
        match self.rng.u32(..7) {
            0..3 => drop(self.site.run(cluster.move_shard(any, &to))),
            3 => drop(self.site.run(cluster.pin(any, Some(&to)))),
            4 => drop(self.site.run(cluster.unpin(any))),
            5 => drop(self.site.run(cluster.set_frozen(self.rng.bool()))),
            _ => drop(self.site.run(cluster.set_drained(&to, self.rng.u32(..3) == 0))),
        }
    }

    /// The store ends a session early.
    fn end_session_early(&mut self, at: usize) {
        let process = &self.processes[at];
        let address = node(process.address);
        if self.auditor.members.contains_key(&address) {
            self.ended_early.extend(process.member.as_ref().map(|member| member.holder().clone()));
            self.site.end_session_of(process.address);
        }
    }

    /// Scripts the store's reactions to the next commits of a process.
    fn script_faults(&mut self, at: usize) {
        let reactions = [Reaction::Apply, Reaction::Refuse, Reaction::LoseAnswer, Reaction::Late];
        let count = self.rng.usize(1..6);
        let next: Vec<_> = (0..count).map(|_| reactions[self.rng.usize(..4)]).collect();
        self.processes[at].store.next(next);
    }

    /// Fails if two nodes that may serve both hold a shard in their views.
    fn assert_one_server_per_shard(&self) {
        let mut served: BTreeMap<ShardId, (&NodeAddress, FenceEpoch)> = BTreeMap::new();
        for Process { cluster, member, .. } in &self.processes {
            let Some(member) = member else { continue };
            if !member.may_serve() || self.ended_early.contains(member.holder()) {
                continue;
            }
            for (shard, fence) in cluster.view().held_by(member.holder()) {
                let other = served.insert(shard, (member.address(), fence));
                assert_eq!(other, None, "{} serves shard {shard:?} too", member.address());
            }
        }
    }

    /// Stops all faults, waits until the cluster is balanced, and returns the number of claims
    /// before.
    fn heal(mut self) -> usize {
        self.site.store.release_watches();
        for at in 0..self.processes.len() {
            self.processes[at].store.next([]);
            let store = self.processes[at].store.clone();
            self.site.run(store.deliver_late());
            self.crash(at);
        }
        self.site.pass(TTL * 2);
        self.auditor.look(&self.site);
        for at in 0..self.processes.len() {
            self.join(at);
            self.auditor.look(&self.site);
        }
        let operator = self.site.cluster();
        let _thawed = self.site.run(operator.set_frozen(false));
        for number in 0..u64::from(SHARDS) {
            let _unpinned = self.site.run(operator.unpin(shard(number)));
        }
        for address in ["a:1", "b:1", "c:1"] {
            self.site.run(operator.set_drained(&node(address), false)).unwrap();
        }
        let members: Vec<_> =
            self.processes.iter().map(|one| one.member.clone().unwrap()).collect();
        let before = self.auditor.claims.len();
        self.site.settle(&members.iter().collect::<Vec<_>>());
        self.auditor.look(&self.site);
        before
    }
}

fn survives(layout: &Layout, seed: u64) -> usize {
    let mut site = match layout {
        Layout::Native => Site::new(),
        Layout::Seed { .. } => Site::text(),
    };
    site.hasty = true;
    let mut run = FaultRun::new(site, seed);
    for _ in 0..300 {
        run.step();
    }
    run.heal()
}

/// A run without claims would prove nothing.
fn survives_all_seeds(layout: &Layout) {
    let claims: usize = (0..60).map(|seed| survives(layout, seed)).sum();
    assert!(claims > 1_000, "{claims} claims");
}

#[test]
fn records_survive_random_faults() {
    survives_all_seeds(&Layout::Native);
}

#[test]
fn text_survives_random_faults() {
    survives_all_seeds(&Layout::Seed { prefix: "/goverse".to_owned() });
}
