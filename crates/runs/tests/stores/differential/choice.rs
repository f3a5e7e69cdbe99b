//! Choice of the next call, drawn from a seed and resolved against the history.
//!
//! A resolved call is self-contained. So any part of a sequence can be removed, which allows
//! shortening a failing sequence.

use shardwright_contracts::{
    CursorInput, CursorSemantics, FenceEpoch, OpId, RunId, ShardId, ShardInput, ShardKey,
    SpecInput, TenantId, WorkerId,
};
use shardwright_coordination::operation::{
    Acquire, ChangeRun, Checkpoint, Claim, CollectClaimCandidates, Complete, CreateRun,
    CreateRunWithShards, DeclineSplit, FindRun, GetRun, GetRunProgress, LabelOf, ListLabels,
    ListShards, NameRun, ParkShard, RegisterShards, Release, Renew, RequestSplit, SplitReplace,
    SplitResidual, UnparkShard,
};
use shardwright_coordination::{
    Lease, ParkReason, Request, RunConfig, RunName, RunTransition, ShardFilter, ShardStatus,
};

use super::memory::{Held, Memory, Part};
use super::op::Op;

/// Requests of the sequences own their bytes.
type Call = Request<Vec<u8>>;

/// One step of a sequence: the kind of call, and the seed of its details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    kind: CallKind,
    dice: u64,
    /// Interleaving of background tasks.
    pub(crate) interleaving: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Create,
    Register,
    CreateWith,
    Acquire,
    Claim,
    Candidates,
    Renew,
    Checkpoint,
    Complete,
    Park,
    Release,
    Replace,
    Residual,
    Ask,
    Decline,
    Unpark,
    Name,
    Names,
    Look,
    Progress,
    List,
    Change,
    Advance,
    Repeat,
}

const WEIGHTS: &[(CallKind, u32)] = &[
    (CallKind::Create, 2),
    (CallKind::Register, 3),
    (CallKind::CreateWith, 4),
    (CallKind::Acquire, 8),
    (CallKind::Claim, 14),
    (CallKind::Candidates, 3),
    (CallKind::Renew, 6),
    (CallKind::Checkpoint, 14),
    (CallKind::Complete, 7),
    (CallKind::Park, 4),
    (CallKind::Release, 4),
    (CallKind::Replace, 6),
    (CallKind::Residual, 7),
    (CallKind::Ask, 7),
    (CallKind::Decline, 4),
    (CallKind::Unpark, 4),
    (CallKind::Name, 3),
    (CallKind::Names, 2),
    (CallKind::Look, 1),
    (CallKind::Progress, 4),
    (CallKind::List, 3),
    (CallKind::Change, 4),
    (CallKind::Advance, 9),
    (CallKind::Repeat, 9),
];

/// Draws a sequence. It begins with two runs, because other calls need them.
pub(crate) fn draw(rng: &mut fastrand::Rng) -> Vec<Choice> {
    let length = rng.usize(30..=60);
    let total: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    (0..length)
        .map(|step| {
            let mut drawn_weight = rng.u32(..total);
            let drawn = WEIGHTS.iter().find(|(_, weight)| {
                let is_drawn = drawn_weight < *weight;
                drawn_weight = drawn_weight.saturating_sub(*weight);
                is_drawn
            });
            let kind = drawn.map_or(CallKind::Claim, |(kind, _)| *kind);
            let kind = if step < 2 { CallKind::CreateWith } else { kind };
            Choice { kind, dice: rng.u64(..), interleaving: rng.u64(..) }
        })
        .collect()
}

impl Choice {
    /// Resolves the choice against the history.
    pub(crate) fn resolve(self, memory: &Memory) -> Op {
        let mut dice = Dice(fastrand::Rng::with_seed(self.dice));
        match self.kind {
            CallKind::Advance => return Op::Advance(dice.pause(memory)),
            CallKind::Repeat => {
                if let Some(op) = dice.pick(&memory.history) {
                    return op.clone();
                }
            }
            _ => {}
        }
        let tenant = dice.tenant();
        let (tenant, request) = self.resolve_call(&mut dice, memory, tenant);
        Op::Call(tenant, Box::new(request))
    }

    fn resolve_call(self, dice: &mut Dice, memory: &Memory, tenant: TenantId) -> (TenantId, Call) {
        let run = RunId::from_raw(if dice.one_in(4) { 2 } else { 1 });
        let request = match self.kind {
            CallKind::Create => CreateRun { run, config: dice.config() }.into(),
            CallKind::Register => {
                RegisterShards { run, shards: dice.roots(), op: dice.op() }.into()
            }
            CallKind::CreateWith => {
                let (config, shards) = (dice.config(), dice.roots());
                CreateRunWithShards { run, config, shards, op: dice.op() }.into()
            }
            CallKind::Acquire => {
                let (tenant, key) = dice.shard(memory, tenant, run);
                return (tenant, Acquire { key, worker: dice.worker() }.into());
            }
            CallKind::Claim => Claim { run, worker: dice.worker() }.into(),
            CallKind::Candidates => {
                let limit = if dice.one_in(3) { dice.0.usize(..4) } else { 1_000 };
                CollectClaimCandidates { run, worker: dice.worker(), limit }.into()
            }
            CallKind::Ask => {
                let (tenant, key) = dice.shard(memory, tenant, run);
                let (requester, patience_ms) = (dice.worker(), dice.0.u64(..150));
                return (tenant, RequestSplit { key, requester, patience_ms }.into());
            }
            CallKind::Unpark => {
                let (tenant, key) = dice.shard(memory, tenant, run);
                return (tenant, UnparkShard { key, op: dice.op() }.into());
            }
            CallKind::Name => dice.naming(),
            CallKind::Names => dice.names(run),
            CallKind::Progress => GetRunProgress { run }.into(),
            CallKind::List => ListShards { run, filter: dice.filter() }.into(),
            CallKind::Change => ChangeRun { run, change: dice.change(), op: dice.op() }.into(),
            CallKind::Look | CallKind::Advance | CallKind::Repeat => GetRun { run }.into(),
            CallKind::Renew
            | CallKind::Checkpoint
            | CallKind::Complete
            | CallKind::Park
            | CallKind::Release
            | CallKind::Replace
            | CallKind::Residual
            | CallKind::Decline => return self.resolve_hold(dice, memory, tenant),
        };
        (tenant, request)
    }

    /// A call of a holder, mostly with a valid lease.
    fn resolve_hold(
        self,
        dice: &mut Dice,
        memory: &Memory,
        stranger: TenantId,
    ) -> (TenantId, Call) {
        let Some(held) = dice.held(memory) else {
            return (stranger, Claim { run: RunId::from_raw(1), worker: dice.worker() }.into());
        };
        let tenant = if dice.one_in(25) { stranger } else { held.tenant };
        let lease = if dice.one_in(20) { dice.forged(&held.lease) } else { held.lease };
        let request = match self.kind {
            CallKind::Checkpoint => {
                Checkpoint { lease, cursor: dice.mark(held), op: dice.op() }.into()
            }
            CallKind::Complete => {
                Complete { lease, cursor: dice.last_mark(held), op: dice.op() }.into()
            }
            CallKind::Park => {
                let (reason, detail) = (dice.reason(), dice.detail());
                ParkShard { lease, reason, detail, op: dice.op() }.into()
            }
            CallKind::Release => Release { lease, op: dice.op() }.into(),
            CallKind::Replace => dice.replacement(lease, held),
            CallKind::Residual => {
                let parent = dice.parent(held);
                let cut = dice.key_in(&parent);
                let Part { start, end, metadata, .. } = parent;
                let narrowed = SpecInput::new(start, cut.clone(), metadata.clone());
                let residual = SpecInput::new(cut, end, metadata);
                SplitResidual { lease, narrowed, residual, op: dice.op() }.into()
            }
            CallKind::Decline => DeclineSplit { lease, pause_ms: dice.0.u64(..150) }.into(),
            _ => Renew { lease }.into(),
        };
        (tenant, request)
    }
}

/// The details of one call.
struct Dice(fastrand::Rng);

impl Dice {
    fn one_in(&mut self, chances: u32) -> bool {
        self.0.u32(..chances) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.0.usize(..from.len())])
    }

    fn tenant(&mut self) -> TenantId {
        TenantId::from_bytes([if self.one_in(4) { 2 } else { 1 }; TenantId::SIZE])
    }

    fn worker(&mut self) -> WorkerId {
        WorkerId::from_raw(self.0.u64(1..=4))
    }

    /// Few ids, so that some are used for different operations.
    fn op(&mut self) -> OpId {
        OpId::from_raw(self.0.u64(1..=60))
    }

    fn config(&mut self) -> RunConfig {
        let (lease_ms, retries) = match self.0.u32(..6) {
            0 => (100, Some(1)),
            1 => (40, Some(2)),
            _ => (100, None),
        };
        RunConfig::try_new(CursorSemantics::Completed, lease_ms, retries).unwrap()
    }

    fn shard(&mut self, memory: &Memory, tenant: TenantId, run: RunId) -> (TenantId, ShardKey) {
        match self.pick(&memory.shards) {
            Some(&(owner, key)) => (if self.one_in(20) { tenant } else { owner }, key),
            None => (tenant, ShardKey::new(run, ShardId::from_raw(self.0.u64(..4)))),
        }
    }

    /// Mostly a recent lease, sometimes an old one.
    fn held<'m>(&mut self, memory: &'m Memory) -> Option<&'m Held> {
        let recent = memory.held.len().saturating_sub(4);
        let from = if self.one_in(5) { 0 } else { recent };
        self.pick(memory.held.get(from..)?)
    }

    fn forged(&mut self, lease: &Lease) -> Lease {
        let (tenant, owner, fence) = match self.0.u32(..3) {
            0 => (self.tenant(), lease.owner(), lease.fence()),
            1 => (lease.tenant(), self.worker(), lease.fence()),
            _ => {
                let raw = lease.fence().as_raw().saturating_add_signed(self.0.i64(-2..=2));
                let fence = FenceEpoch::from_raw(raw).unwrap_or(FenceEpoch::INITIAL);
                (lease.tenant(), lease.owner(), fence)
            }
        };
        Lease::new(tenant, lease.key(), owner, fence, lease.deadline())
    }

    /// One of few names, for one of few runs.
    fn naming(&mut self) -> Call {
        let run = RunId::from_raw(self.0.u64(1..=6));
        let instead_of = self.0.bool().then(|| RunId::from_raw(self.0.u64(1..=6)));
        let description = vec![b'j'; self.0.usize(..4)];
        NameRun { run, name: self.name(), instead_of, description }.into()
    }

    fn names(&mut self, run: RunId) -> Call {
        match self.0.u32(..3) {
            0 => FindRun { name: self.name() }.into(),
            1 => LabelOf { run }.into(),
            _ => ListLabels {}.into(),
        }
    }

    fn name(&mut self) -> RunName {
        RunName::new(if self.one_in(3) { "weekly" } else { "nightly" }).unwrap()
    }

    /// A key of one or two letters that is probably in the range.
    fn key_in(&mut self, part: &Part) -> Vec<u8> {
        let letter = |text: &Vec<u8>, none: u8| text.first().copied().unwrap_or(none);
        let (first, last) = (letter(&part.start, b'a'), letter(&part.end, b'z'));
        let mut key = vec![self.0.u8(first.min(last)..=last.max(first))];
        if self.one_in(2) {
            key.push(self.0.u8(b'a'..=b'z'));
        }
        key
    }

    fn token(&mut self) -> Vec<u8> {
        let length = if self.one_in(60) { 16_385 } else { self.0.usize(..4) };
        vec![b't'; length]
    }

    fn mark(&mut self, held: &Held) -> CursorInput<Vec<u8>> {
        let last_key = match self.0.u32(..40) {
            0 => None,
            1 => Some(vec![b'k'; 4_097]),
            2 => Some(b"zzz".to_vec()),
            _ => Some(self.key_in(&held.part)),
        };
        CursorInput::new(last_key, Some(self.token()))
    }

    /// Mostly the shard's cursor, with which it can always be completed.
    fn last_mark(&mut self, held: &Held) -> CursorInput<Vec<u8>> {
        if self.one_in(3) { self.mark(held) } else { held.part.cursor.clone() }
    }

    fn reason(&mut self) -> ParkReason {
        *self.pick(ParkReason::ALL).unwrap()
    }

    fn detail(&mut self) -> Vec<u8> {
        let length = if self.one_in(10) { 1_025 } else { self.0.usize(..9) };
        vec![b'd'; length]
    }

    /// The shard as the holder knows it, or another range, whose plans are invalid.
    fn parent(&mut self, held: &Held) -> Part {
        let mut parent = held.part.clone();
        match self.0.u32(..12) {
            0 => parent.start = self.key_in(&held.part),
            1 => parent.end = self.key_in(&held.part),
            2 => parent.cursor = CursorInput::initial(),
            3 => parent.cursor = CursorInput::at(self.key_in(&held.part)),
            _ => {}
        }
        parent
    }

    fn replacement(&mut self, lease: Lease, held: &Held) -> Call {
        let parent = self.parent(held);
        let count = self.0.usize(1..=3);
        let mut cuts: Vec<Vec<u8>> = (0..count).map(|_| self.key_in(&parent)).collect();
        if !self.one_in(8) {
            cuts.retain(|cut| parent.start < *cut && *cut < parent.end);
        }
        // Cuts before the cursor repeat work, which is allowed.
        cuts.sort();
        cuts.dedup();
        let starts = std::iter::once(&parent.start).chain(&cuts);
        let ends = cuts.iter().chain(std::iter::once(&parent.end));
        let mut children: Vec<Part> = starts
            .zip(ends)
            .map(|(start, end)| Part {
                start: start.clone(),
                end: end.clone(),
                metadata: parent.metadata.clone(),
                cursor: CursorInput::initial(),
            })
            .collect();
        let holds_cursor = |child: &&mut Part| {
            parent.last_key().is_some_and(|key| *child.start <= *key && *key < *child.end)
        };
        if let Some(child) = children.iter_mut().find(holds_cursor).filter(|_| !self.one_in(5)) {
            child.cursor = parent.cursor.clone();
        }
        let parts = children.iter().map(Part::to_split).collect();
        SplitReplace { lease, parts, op: self.op() }.into()
    }

    fn roots(&mut self) -> Vec<ShardInput<Vec<u8>>> {
        let mut cuts: Vec<u8> = (0..self.0.usize(2..=5)).map(|_| self.0.u8(b'b'..=b'y')).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut roots: Vec<(ShardId, Part)> = cuts
            .windows(2)
            .zip(0..)
            .map(|(bounds, id)| {
                let (start, end) = (vec![bounds[0]], vec![bounds[1]]);
                let metadata = vec![b'm'; self.0.usize(..3)];
                let cursor = match self.one_in(8) {
                    true => CursorInput::at(start.clone()),
                    false => CursorInput::initial(),
                };
                (ShardId::from_raw(id), Part { start, end, metadata, cursor })
            })
            .collect();
        self.invalidate(&mut roots);
        let input = |(shard, part): &(ShardId, Part)| {
            let part = part.to_split();
            ShardInput { shard: *shard, spec: part.spec, cursor: part.cursor }
        };
        roots.iter().map(input).collect()
    }

    /// Sometimes makes a manifest invalid.
    fn invalidate(&mut self, roots: &mut Vec<(ShardId, Part)>) {
        let kind = self.0.u32(..60);
        let Some((id, part)) = roots.last_mut() else { return };
        match kind {
            0 => *id = ShardId::from_raw(0),
            1 => *id = ShardId::from_raw(1 << 63),
            2 => part.end = Vec::new(),
            3 => part.start = b"a".to_vec(),
            4 => part.cursor = CursorInput::at(b"zz".to_vec()),
            5 => roots.clear(),
            _ => {}
        }
    }

    fn filter(&mut self) -> ShardFilter {
        match self.0.u32(..6) {
            0 => ShardFilter::all(),
            1 => ShardFilter::active(),
            2 => ShardFilter::available(),
            3 => ShardFilter::parked(),
            4 => ShardFilter { root_only: true, ..ShardFilter::all() },
            _ => ShardFilter {
                status: self.pick(ShardStatus::ALL).copied(),
                is_leased: Some(self.0.bool()),
                root_only: false,
            },
        }
    }

    fn change(&mut self) -> RunTransition {
        match self.0.u32(..12) {
            0..3 => RunTransition::Complete,
            3 => RunTransition::Fail,
            4 => RunTransition::Cancel,
            5..8 => RunTransition::Pause,
            _ => RunTransition::Resume,
        }
    }

    /// A short time, or until a lease ends, plus or minus a millisecond.
    fn pause(&mut self, memory: &Memory) -> u64 {
        let now = memory.now.as_millis();
        match self.held(memory) {
            Some(held) if !self.one_in(3) => {
                let deadline = held.lease.deadline().as_millis();
                let moment = deadline.saturating_add_signed(self.0.i64(-1..=1));
                moment.saturating_sub(now)
            }
            _ => self.0.u64(..130),
        }
    }
}
