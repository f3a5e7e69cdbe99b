//! Calls as messages, and back. Input from outside is parsed here, once.

use std::sync::Arc;
use std::time::Duration;

use shardwright_api::CallError;
use shardwright_api::limits::MAX_CHAIN_LENGTH;
use shardwright_api::wire::{gate, node};
use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_placement::ObjectId;

use crate::call::{Call, CallKind, Chain, ObjectKey};
use crate::transport::ShardLoad;

/// Encodes a call.
pub(super) fn to_node(call: Call) -> node::CallRequest {
    let link = |key: &ObjectKey| node::Link {
        object_type: key.object_type.as_ref().to_owned(),
        object: key.id.as_str().to_owned(),
    };
    let node::Link { object_type, object } = link(&call.target);
    node::CallRequest {
        object_type,
        object,
        method: call.method.as_ref().to_owned(),
        payload: call.payload,
        chain: call.chain.links().map(link).collect(),
        fence: call.fence.map(FenceEpoch::as_raw),
        delete: call.kind == CallKind::Delete,
    }
}

/// Decodes a call at a node.
pub(super) fn from_peer(message: node::CallRequest, timeout: Duration) -> Result<Call, CallError> {
    if message.chain.len() > MAX_CHAIN_LENGTH {
        return Err(CallError::ChainTooLong { limit: MAX_CHAIN_LENGTH as u64 });
    }
    let links: Result<Vec<_>, _> =
        message.chain.into_iter().map(|link| key(link.object_type, &link.object)).collect();
    let fence = message.fence.map(FenceEpoch::from_raw).transpose();
    Ok(Call {
        target: key(message.object_type, &message.object)?,
        kind: if message.delete { CallKind::Delete } else { CallKind::Invoke },
        method: Arc::from(message.method),
        payload: message.payload,
        chain: Chain::new(links?),
        fence: fence.map_err(|error| CallError::InvalidId(error.to_string()))?,
        timeout,
        origin: None,
    })
}

/// Decodes a call of a client at a gate. A client is no object and holds no routing table, so its
/// call has neither a chain nor a fence.
pub(super) fn from_client(
    message: gate::CallRequest,
    timeout: Duration,
) -> Result<Call, CallError> {
    let gate::CallRequest { object_type, object, method, payload, chain, fence } = message;
    if !chain.is_empty() || fence.is_some() {
        return Err(CallError::MembersOnly);
    }
    Ok(Call::new(key(object_type, &object)?, method, payload, timeout))
}

/// Decodes a client's request to delete an object.
pub(super) fn to_delete(
    message: gate::DeleteRequest,
    timeout: Duration,
) -> Result<Call, CallError> {
    Ok(Call::delete(key(message.object_type, &message.object)?, timeout))
}

/// Encodes the loads of shards.
pub(super) fn to_loads(loads: Vec<ShardLoad>) -> node::LoadsResponse {
    let (shards, loads) = loads.into_iter().map(|one| (one.shard.as_raw(), one.load)).unzip();
    node::LoadsResponse { shards, loads }
}

/// Decodes the loads of a node's shards.
pub(super) fn from_loads(message: node::LoadsResponse) -> Vec<ShardLoad> {
    let pairs = message.shards.into_iter().zip(message.loads);
    pairs.map(|(shard, load)| ShardLoad { shard: ShardId::from_raw(shard), load }).collect()
}

fn key(object_type: String, id: &str) -> Result<ObjectKey, CallError> {
    let id = ObjectId::parse(id).map_err(|error| CallError::InvalidId(error.to_string()))?;
    Ok(ObjectKey::new(object_type, id))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn calls_round_trip() {
        let named = |id: &str| key("Counter".to_owned(), id).unwrap();
        let timeout = Duration::from_secs(2);
        let call = Call {
            chain: Chain::new([named("a"), named("shard#5/b")]),
            fence: FenceEpoch::from_raw(7).ok(),
            ..Call::new(named("c"), "add", "1", timeout)
        };
        for call in [call, Call::delete(named("c"), timeout)] {
            let back = from_peer(to_node(call.clone()), timeout).unwrap();
            assert_eq!(format!("{back:?}"), format!("{call:?}"));
            assert_eq!(back.payload, call.payload);
        }
    }

    #[test]
    fn loads_round_trip() {
        let of = |(shard, load)| ShardLoad { shard: ShardId::from_raw(shard), load };
        let loads = vec![of((3, 70)), of((9, 0))];
        assert_eq!(from_loads(to_loads(loads.clone())), loads);
    }

    #[test]
    fn a_fence_or_a_chain_of_a_client_is_refused() {
        let link = node::Link { object_type: "Counter".to_owned(), object: "b".to_owned() };
        let plain = node::CallRequest { object: "a".to_owned(), ..Default::default() };
        let fenced = node::CallRequest { fence: Some(1), ..plain.clone() };
        let chained = node::CallRequest { chain: vec![link], ..plain.clone() };
        // The bytes of a call to a node are sent to a gate.
        let sent = |call: &node::CallRequest| {
            let message = gate::CallRequest::decode(call.encode_to_vec().as_slice()).unwrap();
            from_client(message, Duration::ZERO).map(drop)
        };
        assert_eq!(sent(&plain), Ok(()));
        assert_eq!(sent(&fenced), Err(CallError::MembersOnly));
        assert_eq!(sent(&chained), Err(CallError::MembersOnly));
    }

    #[test]
    fn a_call_with_a_malformed_fence_is_refused() {
        let object = "a".to_owned();
        let message = node::CallRequest { object, fence: Some(0), ..Default::default() };
        let refused = from_peer(message, Duration::ZERO);
        assert!(matches!(refused, Err(CallError::InvalidId(why)) if why.contains("fence")));
    }

    #[test]
    fn a_call_with_an_invalid_id_is_refused() {
        let message = gate::CallRequest { object: "shard#x/y".to_owned(), ..Default::default() };
        let refused = from_client(message, Duration::ZERO);
        assert!(matches!(refused, Err(CallError::InvalidId(_))));
        let link = node::Link::default();
        let message = node::CallRequest {
            object: "a".to_owned(),
            chain: vec![link; MAX_CHAIN_LENGTH + 1],
            ..Default::default()
        };
        let refused = from_peer(message, Duration::ZERO);
        assert!(matches!(refused, Err(CallError::ChainTooLong { .. })));
    }
}
