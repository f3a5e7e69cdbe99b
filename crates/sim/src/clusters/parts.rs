//! The parts of a process: its links to the store and to other processes, and its object type. A
//! planted bug is in one of them.

use std::sync::Arc;

use shardwright_node::Transport;
use shardwright_placement::{NodeAddress, TargetChunks};

use super::counter::{CounterType, Nested};
use super::director::Director;
use super::fenced_store::FencedStoreLink;
use super::wire::Wire;
use crate::planted::clusters::{ClusterBug, ClusterTamper};
use crate::planted::objects::{DoctoredType, EarlyRelease, RetryingTransport};
use crate::runtime::link::Link;

impl Director {
    /// A process's link to the store.
    pub(super) fn link(&self, process: usize) -> Link {
        let (store, limits, clock) = (self.store.clone(), self.settings.store, self.clock.clone());
        let link = Link::new(store, limits, clock, self.faults.clone(), process);
        match self.bug {
            Some(bug) => link.tampered(ClusterTamper::of(bug, self.stored.keys.clone())),
            None => link,
        }
    }

    /// A process's links to the other processes.
    pub(super) fn transport(&self, process: usize) -> Arc<dyn Transport> {
        let wire = Wire { clock: self.clock.clone(), wires: self.wires.clone(), process };
        match self.bug {
            Some(ClusterBug::UnknownRetried) => {
                Arc::new(RetryingTransport { inner: wire, clock: self.clock.clone() })
            }
            _ => Arc::new(wire),
        }
    }

    /// The counter type in one life of a process.
    pub(super) fn counters(
        &self,
        process: usize,
        life: u32,
        address: &NodeAddress,
        transport: &Arc<dyn Transport>,
        link: &Link,
    ) -> DoctoredType<CounterType> {
        let (clock, wires, fenced_store) =
            (self.clock.clone(), self.wires.clone(), self.fenced_store.clone());
        let object_link =
            FencedStoreLink { clock: clock.clone(), wires, fenced_store, process, life };
        let nested = match self.bug {
            Some(ClusterBug::NestedNotAdmitted) => {
                Nested::Separate(address.clone(), Arc::clone(transport))
            }
            _ => Nested::InChain,
        };
        let node = EarlyRelease {
            link: link.clone(),
            keys: self.stored.keys.clone(),
            chunks: TargetChunks::of(self.settings.options.config.sharding.num_shards),
            address: address.clone(),
            clock,
            process,
        };
        let inner =
            CounterType { link: object_link, object_events: self.object_events.clone(), nested };
        DoctoredType { inner, bug: self.bug, node }
    }
}
