//! Reads the input: which shards are settled, which must move, and which are in flight.

use shardwright_contracts::LogicalTime;

use super::board::Budget;
use super::board::{Board, Mobility, Node, Shard, Standing};
use super::dense::{NodeNo, Number, PerNode, PerShard, ShardNo};
use super::quota::Costs;
use super::{PlanInput, PlanNote};
use crate::config::PinPolicy;
use crate::member::{Incarnation, Member, NodeInstanceRef};
use crate::node_names::NameNumber;
use crate::observations::Trust;
use crate::shard_map::RawShard;
use crate::target::TargetSince;

pub(super) fn survey<'a>(input: &'a PlanInput<'a>) -> Board<'a> {
    let members: PerNode<&Member> = input.members.iter().collect();
    let view = View {
        input,
        places: input
            .map
            .names()
            .all()
            .map(|name| name.and_then(|name| input.members.position(name.as_str())))
            .map(|place| place.map(NodeNo::new))
            .collect(),
        members: &members,
        came_at: input.members.came_at().collect(),
    };
    let mut shards: PerShard<Shard> = input.map.raw().map(|raw| view.shard(&raw)).collect();
    for shard in &input.observations.unreadable {
        if let Some(number) = shards.number_of(*shard) {
            shards[number].standing = Standing::Unreadable;
        }
    }
    let on_trial =
        |member: &Member| input.observations.trust(&member.holder, input.now) == Trust::Trial;
    let mut budget = Budget::new(input.config, members.len());
    for (node, _) in members.iter().filter(|(_, member)| on_trial(member)) {
        budget.limit_to_one(node);
    }
    for (raw, (_, shard)) in input.map.raw().zip(shards.iter()) {
        if let Some((giver, taker)) = view.in_flight(&raw, shard) {
            budget.occupy(giver, taker);
        }
    }
    let nodes = members
        .iter()
        .map(|(_, member)| Node {
            address: member.address(),
            weight: member.weight.get(),
            open: !member.draining,
            on_trial: on_trial(member),
            has: 0,
            fixed: 0,
        })
        .collect();
    let mut board = Board {
        input,
        nodes,
        shards,
        costs: Costs::new(input),
        budget,
        moves: Vec::new(),
        notes: Vec::new(),
        ask_again_at: None,
    };
    note_stuck(&mut board);
    close_nodes_that_do_not_claim(&mut board, &members);
    fix_what_no_node_could_bear(&mut board);
    weigh(&mut board);
    board
}

struct View<'a> {
    input: &'a PlanInput<'a>,
    /// By the number of a name.
    places: Vec<Option<NodeNo>>,
    members: &'a PerNode<&'a Member>,
    came_at: PerNode<LogicalTime>,
}

impl View<'_> {
    fn shard(&self, raw: &RawShard<'_>) -> Shard {
        let target = raw.target.and_then(|name| self.place(name));
        let holder = raw.holder.and_then(|(name, life)| self.live(name, life));
        let pinned = raw.flags.is_pinned();
        // Away from home it is not fixed.
        let is_bound = pinned && !self.is_away(raw);
        let waits = is_bound && self.input.config.pin_policy == PinPolicy::Wait;
        let awaited = target.filter(|node| holder != Some(*node));
        let late_ms = awaited.and_then(|node| self.late(raw, node));
        let standing = match target {
            None if raw.target.is_none() => Standing::Unplaced,
            None if waits => Standing::Waiting,
            None => Standing::Gone,
            Some(node) if self.members[node].draining && waits => Standing::Waiting,
            Some(node) if self.members[node].draining => Standing::Draining,
            Some(_) if is_bound => Standing::Home(Mobility::Fixed),
            Some(_) => match late_ms {
                Some(for_ms) if holder.is_none() => Standing::NotClaimed { for_ms },
                Some(_) | None if pinned => Standing::Home(Mobility::Fixed),
                None if awaited.is_none() => Standing::Home(self.settled(raw)),
                Some(_) | None => Standing::Home(Mobility::InFlight),
            },
        };
        Shard { target, holder, pinned, late_ms, standing, counts_at: None }
    }

    /// Whether a pinned shard has another target than its home.
    fn is_away(&self, raw: &RawShard<'_>) -> bool {
        let target = raw.target.and_then(|name| self.input.map.names().name(name));
        raw.flags.home().is_some_and(|home| target != Some(home))
    }

    /// How long `target` could have claimed a shard and has not, if that is too long.
    ///
    /// For a shard that was settled, the time counts from the change that unsettled it: a node
    /// joined, left or released the shard.
    fn late(&self, raw: &RawShard<'_>, target: NodeNo) -> Option<u64> {
        let came_at = self.came_at[target];
        let former = raw.holder.filter(|(name, life)| self.live(*name, *life).is_none());
        let left_at = former.and_then(|(name, incarnation)| {
            let address = self.input.map.names().name(name)?;
            Some(self.input.members.left_at(NodeInstanceRef { address, incarnation }))
        });
        let loose_at = [left_at, raw.released_at].into_iter().flatten().fold(came_at, Ord::max);
        late(self.input, raw, loose_at)
    }

    /// The giver and the receiver of a shard in flight, if it counts as such.
    ///
    /// A shard without an earlier target affects no caller, and a stuck shard must not delay
    /// others.
    fn in_flight(&self, raw: &RawShard<'_>, shard: &Shard) -> Option<(Option<NodeNo>, NodeNo)> {
        let counts = matches!(shard.standing, Standing::Home(_))
            && shard.holder != shard.target
            && !matches!(raw.since, TargetSince::Placed(_))
            && shard.late_ms.is_none();
        counts.then_some((shard.holder, shard.target?))
    }

    fn settled(&self, raw: &RawShard<'_>) -> Mobility {
        match cooling_until(self.input, raw) {
            Some(until) => Mobility::Cooling { until },
            None => Mobility::Free,
        }
    }

    fn place(&self, name: NameNumber) -> Option<NodeNo> {
        self.places.get(name.index()).copied().flatten()
    }

    fn live(&self, name: NameNumber, life: Incarnation) -> Option<NodeNo> {
        self.place(name).filter(|node| self.members[*node].holder.incarnation == life)
    }
}

fn note_stuck(board: &mut Board<'_>) {
    let mut stuck: PerNode<(u32, Option<ShardNo>)> =
        board.nodes.iter().map(|_| (0, None)).collect();
    for (number, shard) in board.shards.iter() {
        let counts = matches!(shard.standing, Standing::Home(_) | Standing::NotClaimed { .. });
        if let Some(target) = shard.target
            && counts
            && shard.late_ms.is_some()
        {
            let (count, first) = &mut stuck[target];
            *count += 1;
            first.get_or_insert(number);
        }
    }
    for (node, (shards, first)) in stuck.iter() {
        if let Some(first) = first {
            let node = board.nodes[node].address.clone();
            board.notes.push(PlanNote::Stuck { node, shards: *shards, first: first.id() });
        }
    }
}

/// Closes nodes with unclaimed shards, now or recently, unless that would close all nodes.
fn close_nodes_that_do_not_claim(board: &mut Board<'_>, members: &PerNode<&Member>) {
    let (observations, now) = (board.input.observations, board.input.now);
    let trust = |member: &Member| observations.trust(&member.holder, now);
    let mut idle: PerNode<bool> =
        members.iter().map(|(_, member)| matches!(trust(member), Trust::PassedOver(_))).collect();
    for (_, shard) in board.shards.iter() {
        if let (Standing::NotClaimed { .. }, Some(target)) = (shard.standing, shard.target) {
            idle[target] = true;
        }
    }
    let some_claim = board.nodes.iter().any(|(number, node)| node.open && !idle[number]);
    if some_claim {
        for number in board.nodes.numbers() {
            if let Trust::PassedOver(until) = trust(members[number])
                && board.nodes[number].open
            {
                let node = board.nodes[number].address.clone();
                board.notes.push(PlanNote::PassedOver { node, until });
                board.ask_again(until);
            }
            board.nodes[number].open &= !idle[number];
        }
        return;
    }
    for number in board.shards.numbers() {
        let shard = &mut board.shards[number];
        if matches!(shard.standing, Standing::NotClaimed { .. }) {
            shard.standing = Standing::unclaimed(shard.pinned);
        }
    }
}

fn fix_what_no_node_could_bear(board: &mut Board<'_>) {
    let Costs::Load(costs) = &board.costs else { return };
    let open = || board.nodes.iter().filter(|(_, node)| node.open);
    let weight: u128 = open().map(|(_, node)| u128::from(node.weight)).sum();
    let strongest = open().map(|(_, node)| u128::from(node.weight)).max().unwrap_or(0);
    let total: u128 = costs.iter().map(|(_, cost)| u128::from(*cost)).sum();
    let Some(share) = (total * strongest).checked_div(weight) else { return };
    for (number, cost) in costs.iter().filter(|(_, cost)| u128::from(**cost) > share) {
        let percent = u128::from(*cost) * 100 / share.max(1);
        let percent = u32::try_from(percent).unwrap_or(u32::MAX);
        board.notes.push(PlanNote::TooHeavy { shard: number.id(), percent });
        if let Standing::Home(mobility) = &mut board.shards[number].standing {
            *mobility = Mobility::Fixed;
        }
    }
}

/// Adds up the costs of each node.
fn weigh(board: &mut Board<'_>) {
    let (mut waiting, mut unreadable) = ((0, None), (0, None));
    for (number, raw) in board.shards.numbers().zip(board.input.map.raw()) {
        let shard = board.shards[number];
        match shard.standing {
            Standing::Home(mobility) => {
                // A pinned shard counts at its home. Otherwise other shards would fill the place
                // and have to leave again.
                let home = raw.flags.home().filter(|_| shard.pinned);
                let home = home.and_then(|home| board.input.members.position(home.as_str()));
                let home = home.map(NodeNo::new).filter(|home| board.nodes[*home].open);
                let Some(counts_at) = home.or(shard.target) else { continue };
                let cost = board.costs.of(number);
                board.shards[number].counts_at = Some(counts_at);
                board.nodes[counts_at].has += cost;
                if mobility == Mobility::Fixed {
                    board.nodes[counts_at].fixed += cost;
                }
            }
            Standing::Waiting => {
                waiting.0 += 1;
                waiting.1.get_or_insert(number);
            }
            Standing::Unreadable => {
                unreadable.0 += 1;
                unreadable.1.get_or_insert(number);
                // An unreadable shard counts where it is known to be, and stays there.
                if let Some(target) = shard.target {
                    let cost = board.costs.of(number);
                    board.nodes[target].has += cost;
                    board.nodes[target].fixed += cost;
                }
            }
            _ => {}
        }
    }
    if let (shards, Some(first)) = waiting {
        board.notes.push(PlanNote::PinnedToAbsent { shards, first: first.id() });
    }
    if let (shards, Some(first)) = unreadable {
        board.notes.push(PlanNote::Unreadable { shards, first: first.id() });
    }
}

// Stored times come from the clocks of other machines. A target that this process saw being written
// counts from then. A time in the future means nothing.

/// The end of the wait after the last membership change.
pub(super) fn guard_ends(input: &PlanInput<'_>) -> LogicalTime {
    let duration = input.config.cluster_state_stability_duration_ms;
    input.members.changed_at().saturating_add(duration)
}

/// How long a shard has been in flight, if that is too long. Its target could have claimed it since
/// `loose_at`.
///
/// A target of unknown time existed at least when the leader started to follow the cluster.
pub(super) fn late(
    input: &PlanInput<'_>,
    raw: &RawShard<'_>,
    loose_at: LogicalTime,
) -> Option<u64> {
    let given_at = given_at(input, raw).unwrap_or(input.observations.follows_since);
    let for_ms = input.now.millis_since(given_at.max(loose_at));
    (for_ms >= input.config.stuck_after_ms).then_some(for_ms)
}

/// The end of a shard's move cooldown, if it is not over.
pub(super) fn cooling_until(input: &PlanInput<'_>, raw: &RawShard<'_>) -> Option<LogicalTime> {
    if matches!(raw.since, TargetSince::Placed(_)) {
        return None;
    }
    // By a trusted clock, the move may have been right before the leader started to follow the
    // cluster.
    let follows_since = input.observations.follows_since;
    let stored = || given_at(input, raw).map_or(follows_since, |at| at.max(follows_since));
    let at = raw.observed_at.unwrap_or_else(stored);
    let until = at.saturating_add(input.config.move_cooldown_ms);
    (input.now < until).then_some(until)
}

/// When a shard got its target, by the leader's clock.
fn given_at(input: &PlanInput<'_>, raw: &RawShard<'_>) -> Option<LogicalTime> {
    raw.observed_at.or_else(|| raw.since.time().filter(|at| *at <= input.now))
}
