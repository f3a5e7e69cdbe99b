use std::fmt;

use super::{Retry, Route, RouteError, RoutingTable};
use crate::object_id::{ObjectIdRef, ObjectLocation};
use crate::sharding::Sharding;

/// Explains a route in one line.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'a> {
    table: &'a RoutingTable,
    id: ObjectIdRef<'a>,
    route: Route<'a>,
}

impl RoutingTable {
    /// The route of a call to an object, with its explanation.
    pub fn explain<'a>(&'a self, id: &'a str) -> Result<Explanation<'a>, RouteError> {
        let id = ObjectIdRef::parse(id)?;
        Ok(Explanation { table: self, id, route: self.route(id)? })
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, id, route } = self;
        let Sharding { hash, num_shards } = table.sharding;
        match (id.location(), route.shard()) {
            (ObjectLocation::Hashed, Some(shard)) => {
                let (shard, name) = (shard.as_raw(), hash.name());
                write!(f, "the id hashes to shard {shard} of {num_shards} by {name}; ")?;
            }
            (ObjectLocation::Shard(shard), _) => {
                write!(f, "the id names shard {} of {num_shards}; ", shard.as_raw())?;
            }
            (ObjectLocation::Node(node), _) => write!(f, "the id names node {node}; ")?,
            (ObjectLocation::Hashed, None) => {}
        }
        write!(f, "{route}")?;
        let Some(shard) = route.shard() else { return Ok(()) };
        if let Some(fence) = table.fence(shard) {
            write!(f, "; its fence is {fence}")?;
        }
        match (route, table.target(shard)) {
            (Route::Moving { .. }, _) | (_, None) => Ok(()),
            (Route::There { node, .. }, Some(target)) if *node == target => Ok(()),
            (Route::Here { .. }, Some(target)) if table.own_address() == Some(target) => Ok(()),
            (_, Some(target)) => write!(f, "; its target is {target}"),
        }
    }
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here { .. } => f.write_str("this node serves it"),
            Self::There { node, .. } => write!(f, "{node} serves it"),
            Self::Moving { to, retry, .. } => {
                write!(f, "it was released and {to} is about to claim it; {retry}")
            }
            Self::Unclaimed { retry, .. } => write!(f, "no node has claimed it; {retry}"),
            Self::NodeGone { shard: Some(_), node, retry } => {
                write!(f, "{node} held it and is gone; {retry}")
            }
            Self::NodeGone { shard: None, node, retry } => {
                write!(f, "{node} is not a member; {retry}")
            }
        }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold { at_most_ms } => {
                write!(f, "the call waits for a change, at most {at_most_ms} ms at a time")
            }
            Self::Fail { after_ms } => {
                write!(f, "the call fails and may be tried again in {after_ms} ms")
            }
        }
    }
}
