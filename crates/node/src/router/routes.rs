use std::sync::{Arc, Mutex, PoisonError};

use shardwright_cluster::ClusterView;
use shardwright_placement::{ClusterConfig, NodeInstance, RoutingTable};

/// The routing table of the newest requested view.
#[derive(Default)]
pub(super) struct RouteCache {
    newest: Mutex<Option<Arc<Routes>>>,
}

/// A routing table, and its basis.
pub(super) struct Routes {
    generation: u64,
    map: u64,
    members: u64,
    own: Option<NodeInstance>,
    pub(super) table: RoutingTable,
}

impl Routes {
    fn is_of(&self, view: &ClusterView, own: Option<&NodeInstance>) -> bool {
        let Self { map, members, own: before, .. } = self;
        *map == view.changed.map && *members == view.changed.members && before.as_ref() == own
    }
}

impl RouteCache {
    /// The table of a view, for the process whose node is `own`. `on_members` is called if the
    /// members differ from those of the newest earlier view.
    pub(super) fn get(
        &self,
        view: &ClusterView,
        own: Option<&NodeInstance>,
        config: &ClusterConfig,
        on_members: impl FnOnce(),
    ) -> Arc<Routes> {
        // Concurrent callers wait for the table instead of building it too.
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(routes) = newest.as_ref().filter(|routes| routes.is_of(view, own)) {
            return Arc::clone(routes);
        }
        let table = view.routing(own, config);
        let (map, members) = (view.changed.map, view.changed.members);
        let generation = view.generation;
        let routes = Arc::new(Routes { generation, map, members, own: own.cloned(), table });
        // A caller with an older view must not replace the newest table.
        if newest.as_ref().is_none_or(|newest| newest.generation <= generation) {
            let before = newest.replace(Arc::clone(&routes));
            if before.is_none_or(|before| before.members != members) {
                on_members();
            }
        }
        routes
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use shardwright_cluster::Changed;
    use shardwright_contracts::LogicalTime;
    use shardwright_placement::{
        Incarnation, Member, Membership, NodeAddress, ShardCount, ShardMap,
    };
    use shardwright_store::Revision;

    use super::*;

    /// A view in which the map changed last in `map`, and the members in `members`.
    fn view(generation: u64, map: u64, members: u64) -> ClusterView {
        let node = NodeAddress::parse("a:1").unwrap();
        let node = Member::new(node, Incarnation::from_raw(members));
        let at = LogicalTime::from_millis(0);
        ClusterView {
            generation,
            revision: Revision::ZERO,
            map: Arc::new(ShardMap::new(ShardCount::try_new(64).unwrap())),
            members: Arc::new(Membership::try_new([node], at).unwrap()),
            gates: Arc::default(),
            leader: None,
            drained: Arc::default(),
            quarantine: Arc::default(),
            changed: Changed { map, members, ..Changed::default() },
        }
    }

    #[test]
    fn the_newest_table_is_kept() {
        let cache = RouteCache::default();
        let config = ClusterConfig::with_num_shards(ShardCount::try_new(64).unwrap());
        let calls = Cell::new(0);
        let get = |view| cache.get(&view, None, &config, || calls.set(calls.get() + 1));
        let old = get(view(3, 3, 1));
        let new = get(view(7, 6, 1));
        assert!(!Arc::ptr_eq(&old, &new));
        // A caller with an older view gets the old table, and the others keep the new one.
        assert_eq!(get(view(3, 3, 1)).generation, 3);
        assert!(Arc::ptr_eq(&new, &get(view(7, 6, 1))));
        // A view without a relevant change has the same table.
        assert!(Arc::ptr_eq(&new, &get(view(8, 6, 1))));
        assert_eq!(calls.get(), 1, "the members did not change");
        get(view(9, 6, 9));
        get(view(8, 6, 1));
        assert_eq!(calls.get(), 2, "an older view changes no members");
    }
}
