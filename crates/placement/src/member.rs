use std::collections::BTreeMap;
use std::num::NonZeroU32;

use shardwright_contracts::LogicalTime;

use crate::address::NodeAddress;

/// Identifies one session of a node. A restarted node has a new incarnation and holds none of the
/// shards of the former one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u64);

impl Incarnation {
    /// Wraps a raw number. Every number is valid, and incarnations of one address differ.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw number.
    #[must_use]
    pub const fn as_raw(self) -> u64 {
        self.0
    }
}

/// A node in one session: the identity that claims shards or leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeInstance {
    /// Its address.
    pub address: NodeAddress,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl NodeInstance {
    /// The same instance, borrowed.
    #[must_use]
    pub const fn borrowed(&self) -> NodeInstanceRef<'_> {
        NodeInstanceRef { address: &self.address, incarnation: self.incarnation }
    }
}

/// A borrowed [`NodeInstance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeInstanceRef<'a> {
    /// Its address.
    pub address: &'a NodeAddress,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl NodeInstanceRef<'_> {
    /// The same instance, owned.
    #[must_use]
    pub fn to_holder(self) -> NodeInstance {
        NodeInstance { address: self.address.clone(), incarnation: self.incarnation }
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its identity.
    pub holder: NodeInstance,
    /// Its share of the shards, relative to other members.
    pub weight: NonZeroU32,
    /// Whether it is draining: it loses its shards and gets none.
    pub draining: bool,
}

impl Member {
    /// A node of weight one that is not draining.
    #[must_use]
    pub const fn new(address: NodeAddress, incarnation: Incarnation) -> Self {
        let holder = NodeInstance { address, incarnation };
        Self { holder, weight: NonZeroU32::MIN, draining: false }
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> &NodeAddress {
        &self.holder.address
    }
}

/// The nodes of the cluster as one process sees them. Gates are not members: they own nothing, so
/// they do not affect the placement of shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Sorted by address, without duplicates.
    members: Vec<Member>,
    /// When each member joined, in its current incarnation.
    came_at: Vec<LogicalTime>,
    departures: Departures,
    changed_at: LogicalTime,
}

/// Two members have the same address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is a member twice")]
pub struct DuplicateMember(pub NodeAddress);

impl Membership {
    /// Members that have been stable since `changed_at`.
    pub fn try_new(
        members: impl IntoIterator<Item = Member>,
        changed_at: LogicalTime,
    ) -> Result<Self, DuplicateMember> {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort_by(|one, other| one.address().cmp(other.address()));
        let pairs = members.iter().zip(members.iter().skip(1));
        if let Some((twice, _)) = pairs.clone().find(|(one, next)| one.address() == next.address())
        {
            return Err(DuplicateMember(twice.address().clone()));
        }
        let came_at = vec![changed_at; members.len()];
        Ok(Self { members, came_at, departures: Departures::before(changed_at), changed_at })
    }

    /// The membership with the members seen at `now`.
    ///
    /// A node that joins, leaves or restarts changes `changed_at`. Draining and weights do not, so
    /// they do not delay planning.
    pub fn updated(
        &self,
        members: impl IntoIterator<Item = Member>,
        now: LogicalTime,
    ) -> Result<Self, DuplicateMember> {
        let mut next = Self::try_new(members, now)?;
        next.departures = self.departures.clone();
        for (member, came_at) in next.members.iter().zip(&mut next.came_at) {
            next.departures.forget(&member.holder);
            *came_at = self.here_since(member.holder.borrowed()).unwrap_or(now);
        }
        for left in self.iter() {
            if !next.is_live(left.holder.borrowed()) {
                next.departures.note(left.holder.clone(), now);
            }
        }
        let same = next.members.len() == self.members.len()
            && next.iter().zip(self.iter()).all(|(one, other)| one.holder == other.holder);
        Ok(if same { Self { changed_at: self.changed_at, ..next } } else { next })
    }

    /// The members, by address.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Member> + DoubleEndedIterator {
        self.members.iter()
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The last change of the set of nodes.
    #[must_use]
    pub const fn changed_at(&self) -> LogicalTime {
        self.changed_at
    }

    /// The member at an address.
    #[must_use]
    pub fn get(&self, address: &str) -> Option<&Member> {
        self.position(address).and_then(|at| self.members.get(at))
    }

    /// Whether that instance of a node is a member.
    #[must_use]
    pub fn is_live(&self, holder: NodeInstanceRef<'_>) -> bool {
        self.get(holder.address.as_str())
            .is_some_and(|member| member.holder.incarnation == holder.incarnation)
    }

    /// When that instance of a node joined, if it is a member.
    #[must_use]
    pub fn here_since(&self, holder: NodeInstanceRef<'_>) -> Option<LogicalTime> {
        let at = self.position(holder.address.as_str()).filter(|_| self.is_live(holder))?;
        self.came_at.get(at).copied()
    }

    /// The latest time at which an instance that is not a member can have left.
    #[must_use]
    pub fn left_at(&self, holder: NodeInstanceRef<'_>) -> LogicalTime {
        self.departures.of(holder)
    }

    /// When each member joined, by address.
    pub(crate) fn came_at(&self) -> impl Iterator<Item = LogicalTime> {
        self.came_at.iter().copied()
    }

    /// The index of an address among the members.
    pub(crate) fn position(&self, address: &str) -> Option<usize> {
        self.members.binary_search_by(|member| member.address().as_str().cmp(address)).ok()
    }
}

/// Maximum departures that are recorded individually.
const RECORDED_MAX: usize = 256;

/// When nodes left the cluster, as one process saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Departures {
    known: BTreeMap<NodeInstance, LogicalTime>,
    /// By this time all nodes without a record have left.
    others_by: LogicalTime,
}

impl Departures {
    /// Earlier departures are unknown.
    pub(crate) const fn before(time: LogicalTime) -> Self {
        Self { known: BTreeMap::new(), others_by: time }
    }

    /// Records a node that has left.
    pub(crate) fn note(&mut self, holder: NodeInstance, now: LogicalTime) {
        self.known.insert(holder, now);
        if self.known.len() > RECORDED_MAX {
            let first = self.known.iter().min_by_key(|(holder, at)| (**at, *holder));
            if let Some((holder, at)) = first.map(|(holder, at)| (holder.clone(), *at)) {
                self.known.remove(&holder);
                self.others_by = self.others_by.max(at);
            }
        }
    }

    /// Removes the record of a node that is a member after all.
    pub(crate) fn forget(&mut self, holder: &NodeInstance) {
        self.known.remove(holder);
    }

    /// The latest time at which an instance that is not a member can have left. Claims without an
    /// incarnation may be of any instance at the address.
    pub(crate) fn of(&self, holder: NodeInstanceRef<'_>) -> LogicalTime {
        if self.known.is_empty() {
            return self.others_by;
        }
        let life = |raw| NodeInstance {
            address: holder.address.clone(),
            incarnation: Incarnation::from_raw(raw),
        };
        let exactly = self.known.get(&holder.to_holder()).copied();
        let of_address = || self.known.range(life(0)..=life(u64::MAX)).map(|(_, at)| *at).max();
        exactly.or_else(of_address).unwrap_or(self.others_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(address: &str, incarnation: u64) -> Member {
        let address = NodeAddress::parse(address).unwrap();
        Member::new(address, Incarnation::from_raw(incarnation))
    }

    fn at(millis: u64) -> LogicalTime {
        LogicalTime::from_millis(millis)
    }

    #[test]
    fn members_are_found_in_any_order() {
        let members = Membership::try_new([member("b", 1), member("a", 2)], at(0)).unwrap();
        assert_eq!(members.get("a").unwrap().holder.incarnation.as_raw(), 2);
        assert_eq!(members.get("c"), None);
        let addresses: Vec<_> = members.iter().map(|one| one.address().as_str()).collect();
        assert_eq!(addresses, ["a", "b"]);
    }

    #[test]
    fn duplicate_address_is_refused() {
        let twice = Membership::try_new([member("a", 1), member("b", 1), member("a", 2)], at(0));
        assert_eq!(twice.unwrap_err().to_string(), "a is a member twice");
    }

    #[test]
    fn another_incarnation_is_not_a_member() {
        let members = Membership::try_new([member("a", 2)], at(0)).unwrap();
        assert!(members.is_live(member("a", 2).holder.borrowed()));
        assert!(!members.is_live(member("a", 1).holder.borrowed()));
        assert!(!members.is_live(member("b", 2).holder.borrowed()));
    }

    #[test]
    fn join_and_leave_times_are_per_incarnation() {
        let since = |members: &Membership, one: Member| members.here_since(one.holder.borrowed());
        let left = |members: &Membership, one: Member| members.left_at(one.holder.borrowed());
        let members = Membership::try_new([member("a", 1), member("b", 1)], at(5)).unwrap();
        let members = members.updated([member("a", 1), member("b", 2)], at(7)).unwrap();
        let members = members.updated([member("a", 1), member("b", 2)], at(8)).unwrap();
        let members = members.updated([member("a", 1)], at(9)).unwrap();
        assert_eq!(since(&members, member("a", 1)), Some(at(5)));
        assert_eq!(since(&members, member("b", 2)), None);
        assert_eq!(left(&members, member("b", 1)), at(7));
        assert_eq!(left(&members, member("b", 2)), at(9));
        assert_eq!(left(&members, member("c", 1)), at(5), "before the first observation");
        let back = members.updated([member("a", 1), member("b", 2)], at(12)).unwrap();
        assert_eq!(since(&back, member("b", 2)), Some(at(12)));
    }

    #[test]
    fn join_leave_and_restart_change_the_membership() {
        let members = Membership::try_new([member("a", 1), member("b", 1)], at(5)).unwrap();
        let changed = |next: Vec<Member>| members.updated(next, at(9)).unwrap().changed_at();
        assert_eq!(changed(vec![member("b", 1), member("a", 1)]), at(5));
        let leaving = Member { draining: true, ..member("b", 1) };
        let heavier = Member { weight: NonZeroU32::new(3).unwrap(), ..member("a", 1) };
        assert_eq!(changed(vec![heavier, leaving]), at(5));
        assert_eq!(changed(vec![member("a", 1)]), at(9));
        assert_eq!(changed(vec![member("a", 1), member("b", 2)]), at(9));
        assert_eq!(changed(vec![member("a", 1), member("b", 1), member("c", 1)]), at(9));
    }

    fn of(address: &str, life: u64) -> NodeInstance {
        let address = NodeAddress::parse(address).unwrap();
        NodeInstance { address, incarnation: Incarnation::from_raw(life) }
    }

    /// Each instance is of another node.
    fn holder(life: u64) -> NodeInstance {
        of(&format!("n{life}"), life)
    }

    #[test]
    fn departures_before_the_first_observation_share_its_time() {
        let mut departures = Departures::before(at(5));
        assert_eq!(departures.of(holder(1).borrowed()), at(5));
        departures.note(holder(1), at(7));
        assert_eq!(departures.of(holder(1).borrowed()), at(7));
        assert_eq!(departures.of(holder(2).borrowed()), at(5));
        departures.forget(&holder(1));
        assert_eq!(departures.of(holder(1).borrowed()), at(5));
    }

    #[test]
    fn unknown_incarnation_may_be_any_at_its_address() {
        let mut departures = Departures::before(at(0));
        departures.note(of("a", 3), at(7));
        departures.note(of("a", 4), at(9));
        assert_eq!(departures.of(of("a", 3).borrowed()), at(7));
        assert_eq!(departures.of(of("a", 0).borrowed()), at(9));
        assert_eq!(departures.of(of("b", 0).borrowed()), at(0));
    }

    #[test]
    fn evicted_departures_share_the_latest_time() {
        let mut departures = Departures::before(at(0));
        let many = RECORDED_MAX as u64 + 10;
        (1..=many).for_each(|life| departures.note(holder(life), at(life * 10)));
        assert_eq!(departures.known.len(), RECORDED_MAX);
        assert_eq!(departures.of(holder(1).borrowed()), at(100));
        assert_eq!(departures.of(holder(10).borrowed()), at(100));
        assert_eq!(departures.of(holder(11).borrowed()), at(110));
        assert_eq!(departures.of(holder(many).borrowed()), at(many * 10));
    }
}
