use std::fmt;

use shardwright_contracts::ShardId;

use super::{Retry, Route, RouteError, RoutingTable};
use crate::object_id::{ObjectIdRef, ObjectLocation};
use crate::sharding::{ShardOutOfRange, Sharding};

/// Explains a route in one line.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'a> {
    table: &'a RoutingTable,
    /// Absent where a shard is explained.
    id: Option<ObjectIdRef<'a>>,
    route: Route<'a>,
}

impl RoutingTable {
    /// The route of a call to an object, with its explanation.
    pub fn explain<'a>(&'a self, id: &'a str) -> Result<Explanation<'a>, RouteError> {
        let id = ObjectIdRef::parse(id)?;
        Ok(Explanation { table: self, id: Some(id), route: self.route(id)? })
    }

    /// The route of a call to any object of a shard, with its explanation.
    pub fn explain_shard(&self, shard: ShardId) -> Result<Explanation<'_>, ShardOutOfRange> {
        Ok(Explanation { table: self, id: None, route: self.route_shard(shard)? })
    }
}

impl<'a> Explanation<'a> {
    /// The explained route.
    #[must_use]
    pub const fn route(&self) -> Route<'a> {
        self.route
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, id, route } = self;
        let Sharding { hash, num_shards } = table.sharding;
        match (id.map(ObjectIdRef::location), route.shard()) {
            (None, Some(shard)) => write!(f, "shard {} of {num_shards}: ", shard.as_raw())?,
            (Some(ObjectLocation::Hashed), Some(shard)) => {
                let (shard, name) = (shard.as_raw(), hash.name());
                write!(f, "the id hashes to shard {shard} of {num_shards} by {name}; ")?;
            }
            (Some(ObjectLocation::Shard(shard)), _) => {
                write!(f, "the id names shard {} of {num_shards}; ", shard.as_raw())?;
            }
            (Some(ObjectLocation::Node(node)), _) => write!(f, "the id names node {node}; ")?,
            (Some(ObjectLocation::Hashed) | None, None) => {}
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
                write!(
                    f,
                    "the call is held until the route changes, checked at least every {at_most_ms} \
                     ms"
                )
            }
            Self::Fail { after_ms } => {
                write!(f, "the call fails; retry after {after_ms} ms")
            }
        }
    }
}
