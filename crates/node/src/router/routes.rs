use std::sync::{Arc, Mutex, PoisonError};

use shardwright_engine::cluster::ClusterView;
use shardwright_placement::{ClusterConfig, Holder, RoutingTable};

/// The routing table of the newest state that anybody asked for.
#[derive(Default)]
pub(super) struct RouteCache {
    newest: Mutex<Option<Arc<Routes>>>,
}

/// A routing table, and what it was made from.
pub(super) struct Routes {
    map: u64,
    members: u64,
    own: Option<Holder>,
    pub(super) table: RoutingTable,
}

impl Routes {
    fn is_of(&self, view: &ClusterView, own: Option<&Holder>) -> bool {
        let Self { map, members, own: before, .. } = self;
        *map == view.changed.map && *members == view.changed.members && before.as_ref() == own
    }
}

impl RouteCache {
    /// The table of a state, as the process sees it whose node is `own`.
    pub(super) fn get(
        &self,
        view: &ClusterView,
        own: Option<&Holder>,
        config: &ClusterConfig,
    ) -> Arc<Routes> {
        // Whoever else wants the table waits until it is made, rather than make it too.
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(routes) = newest.as_ref().filter(|routes| routes.is_of(view, own)) {
            return Arc::clone(routes);
        }
        let table = view.routing(own, config);
        let (map, members) = (view.changed.map, view.changed.members);
        let routes = Arc::new(Routes { map, members, own: own.cloned(), table });
        *newest = Some(Arc::clone(&routes));
        routes
    }
}
