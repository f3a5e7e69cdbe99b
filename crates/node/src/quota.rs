//! Shares of a limited resource: connections, bytes, held calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_api::limits::Share;
use shardwright_api::{Limit, LimitOption};

/// The sender of a call: a network address, and one of its connections.
///
/// An address has a share of each limit: without credentials, nothing else distinguishes
/// clients. A client's connection has a part of that share, because clients behind one address each
/// use their own. A member's connection has none: a gate sends the calls of all its clients on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// The bits of its IPv6 or mapped IPv4 address that identify its network.
    pub network: u128,
    /// The number of its connection, if connections have parts of the peer's share.
    pub connection: Option<u64>,
}

/// A resource with a limit for all users, and a share for each peer.
#[derive(Debug)]
pub(crate) struct Quota {
    share: Share,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: u64,
    networks: BTreeMap<u128, u64>,
    connections: BTreeMap<Peer, u64>,
}

/// A used amount of a quota. Dropping it frees the amount.
#[derive(Debug)]
pub(crate) struct Charge {
    quota: Arc<Quota>,
    peer: Option<Peer>,
    amount: u64,
}

/// The configured limit that refuses an amount. What a peer may use at the moment can be less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverLimit {
    /// The limit for all peers.
    All(u64),
    /// The limit for one peer.
    Peer(u64),
}

impl OverLimit {
    /// The limit with the option that sets it.
    pub(crate) const fn of(self, all: LimitOption, peer: LimitOption) -> Limit {
        match self {
            Self::All(value) => Limit { option: all, value },
            Self::Peer(value) => Limit { option: peer, value },
        }
    }
}

impl Quota {
    pub(crate) fn new(share: Share) -> Arc<Self> {
        Arc::new(Self { share, used: Mutex::default() })
    }

    /// The amount in use.
    pub(crate) fn used(&self) -> u64 {
        self.lock().all
    }

    /// Takes an amount for a peer, or for this process itself.
    pub(crate) fn take(
        self: &Arc<Self>,
        peer: Option<Peer>,
        amount: u64,
    ) -> Result<Charge, OverLimit> {
        let mut used = self.lock();
        self.check(&used, peer, amount)?;
        used.add(peer, amount);
        drop(used);
        Ok(Charge { quota: Arc::clone(self), peer, amount })
    }

    /// A charge of nothing, which always fits.
    pub(crate) fn nothing(self: &Arc<Self>, peer: Peer) -> Charge {
        Charge { quota: Arc::clone(self), peer: Some(peer), amount: 0 }
    }

    /// Checks whether an amount fits.
    fn check(&self, used: &Used, peer: Option<Peer>, amount: u64) -> Result<(), OverLimit> {
        let Share { all, peer: of_peer } = self.share;
        let free = all - used.all;
        if amount > free {
            return Err(OverLimit::All(all));
        }
        let Some(peer) = peer else { return Ok(()) };
        // What is free before the addition, so that a single unit always fits.
        let limit = of_peer.min(free);
        let of_network = used.networks.get(&peer.network).copied().unwrap_or_default();
        let of_connection = used.connections.get(&peer).copied().unwrap_or_default();
        let fits = within(limit, of_network, amount)
            && (peer.connection.is_none()
                || within(limit.saturating_sub(of_network), of_connection, amount));
        match fits {
            true => Ok(()),
            false if of_peer <= free => Err(OverLimit::Peer(of_peer)),
            false => Err(OverLimit::All(all)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn add(&mut self, peer: Option<Peer>, amount: u64) {
        self.all += amount;
        if let Some(peer) = peer {
            *self.networks.entry(peer.network).or_default() += amount;
            if peer.connection.is_some() {
                *self.connections.entry(peer).or_default() += amount;
            }
        }
    }

    fn remove(&mut self, peer: Option<Peer>, amount: u64) {
        self.all -= amount;
        if let Some(peer) = peer {
            less(&mut self.networks, peer.network, amount);
            less(&mut self.connections, peer, amount);
        }
    }
}

impl Charge {
    /// Changes the amount, and its connection, in one step. An amount that is not larger always
    /// fits. If the new amount does not fit, nothing changes.
    pub(crate) fn resize(&mut self, peer: Option<Peer>, amount: u64) -> Result<(), OverLimit> {
        let mut used = self.quota.lock();
        used.remove(self.peer, self.amount);
        let grows = amount > self.amount;
        let fits = if grows { self.quota.check(&used, peer, amount) } else { Ok(()) };
        if fits.is_ok() {
            (self.peer, self.amount) = (peer, amount);
        }
        used.add(self.peer, self.amount);
        drop(used);
        fits
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.quota.lock().remove(self.peer, self.amount);
    }
}

/// Checks whether a limit permits an addition.
fn within(limit: u64, used: u64, amount: u64) -> bool {
    used.checked_add(amount).is_some_and(|sum| sum <= limit)
}

/// Subtracts an amount. A peer that uses nothing takes no memory.
fn less<K: Ord>(used: &mut BTreeMap<K, u64>, key: K, amount: u64) {
    if let Some(one) = used.get_mut(&key) {
        *one -= amount;
        if *one == 0 {
            used.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(network: u128, connection: u64) -> Option<Peer> {
        Some(Peer { network, connection: Some(connection) })
    }

    /// Takes single units until the quota refuses.
    fn fill(quota: &Arc<Quota>, peer: Option<Peer>) -> Vec<Charge> {
        std::iter::from_fn(|| quota.take(peer, 1).ok()).collect()
    }

    #[test]
    fn the_process_itself_may_use_everything() {
        let quota = Quota::new(Share { all: 2, peer: 1 });
        let all = fill(&quota, None);
        assert_eq!((all.len(), quota.take(None, 1).err()), (2, Some(OverLimit::All(2))));
        drop(all);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn a_greedy_peer_leaves_room_for_others() {
        let quota = Quota::new(Share { all: 1_000, peer: 250 });
        let mut taken = Vec::new();
        for network in 0..4 {
            // Each uses many connections.
            for connection in 0..50 {
                taken.extend(fill(&quota, peer(network, connection)));
            }
        }
        let next = fill(&quota, peer(99, 0));
        assert!(next.len() >= 40, "{} are left for the next peer", next.len());
    }

    #[test]
    fn a_greedy_connection_leaves_room_for_others_of_its_peer() {
        let quota = Quota::new(Share { all: 1_000, peer: 100 });
        let greedy = fill(&quota, peer(1, 0));
        let other = fill(&quota, peer(1, 1));
        assert_eq!((greedy.len(), other.len()), (50, 25));
    }

    #[test]
    fn a_connection_of_a_member_may_use_the_share_of_its_peer() {
        let quota = Quota::new(Share { all: 1_000, peer: 1_000 });
        let member = Some(Peer { network: 1, connection: None });
        assert_eq!(fill(&quota, member).len(), 500);
    }

    #[test]
    fn a_refusal_names_the_configured_limit() {
        let quota = Quota::new(Share { all: 100, peer: 40 });
        let refusal = |peer| quota.take(peer, 1).err();
        // A connection gets half of its peer's share.
        let one = fill(&quota, peer(1, 0));
        assert_eq!((one.len(), refusal(peer(1, 0))), (20, Some(OverLimit::Peer(40))));
        let rest: Vec<_> =
            (1..9).flat_map(|connection| fill(&quota, peer(1, connection))).collect();
        assert_eq!((one.len() + rest.len(), refusal(peer(1, 9))), (40, Some(OverLimit::Peer(40))));
        // The next peer is refused because of what all use together.
        let other = fill(&quota, Some(Peer { network: 2, connection: None }));
        assert_eq!((other.len(), refusal(peer(2, 1))), (30, Some(OverLimit::All(100))));
    }

    #[test]
    fn a_single_unit_always_fits() {
        let quota = Quota::new(Share { all: 1, peer: 1 });
        let one = quota.take(peer(1, 1), 1).unwrap();
        assert!(quota.take(peer(1, 1), 1).is_err() && quota.take(None, 1).is_err());
        drop(one);
        assert!(quota.take(peer(2, 1), 1).is_ok());
    }

    #[test]
    fn a_charge_that_does_not_grow_always_fits() {
        let quota = Quota::new(Share { all: 100, peer: 100 });
        let mut charge = quota.take(peer(1, 1), 50).unwrap();
        let others: Vec<_> = (2..9).flat_map(|other| fill(&quota, peer(other, 1))).collect();
        // It could not be taken again.
        assert!(quota.take(peer(9, 1), 50).is_err());
        let whole = Some(Peer { network: 1, connection: None });
        assert_eq!(charge.resize(whole, 60), Err(OverLimit::All(100)));
        assert_eq!(quota.used(), 50 + others.len() as u64, "nothing has changed");
        assert_eq!(charge.resize(whole, 50), Ok(()));
        assert_eq!(charge.resize(whole, 20), Ok(()));
        assert_eq!(quota.used(), 20 + others.len() as u64);
        drop((charge, others));
        let used = quota.lock();
        assert!(used.all == 0 && used.networks.is_empty() && used.connections.is_empty());
    }

    proptest! {
        #[test]
        fn charges_never_exceed_a_limit_and_leave_nothing_behind(
            steps in prop::collection::vec((0..4_u128, 0..3_u64, 0..40_u64, 0..3_u8), 0..80),
        ) {
            let quota = Quota::new(Share { all: 200, peer: 60 });
            let mut charges: Vec<Charge> = Vec::new();
            for (network, connection, amount, kind) in steps {
                match (kind, charges.first_mut()) {
                    (0, Some(_)) => drop(charges.remove(0)),
                    (1, Some(first)) => drop(first.resize(first.peer, amount)),
                    _ => {}
                }
                charges.extend(quota.take(peer(network, connection), amount).ok());
                let used = quota.lock();
                prop_assert!(used.all <= 200);
                prop_assert!(used.networks.values().all(|one| *one <= 60));
                prop_assert_eq!(used.networks.values().sum::<u64>(), used.all);
                prop_assert_eq!(used.connections.values().sum::<u64>(), used.all);
            }
            charges.clear();
            let used = quota.lock();
            prop_assert!(used.networks.is_empty() && used.connections.is_empty());
        }
    }
}
