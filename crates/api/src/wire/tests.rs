//! Messages come from any process that reaches a port.

use proptest::prelude::*;
use prost::Message as _;

use super::failure::Failure;
use super::node::{CallRequest, Link, LoadsResponse};
use crate::checks;

fn any_call() -> impl Strategy<Value = Vec<u8>> {
    let link = (".{0,8}", ".{0,8}").prop_map(|(object_type, object)| Link { object_type, object });
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    let parts = (link.clone(), ".{0,8}", payload, prop::collection::vec(link, 0..4));
    let rest = (any::<Option<u64>>(), any::<bool>());
    (parts, rest).prop_map(|((link, method, payload, chain), (fence, delete))| {
        let Link { object_type, object } = link;
        let payload = payload.into();
        CallRequest { object_type, object, method, payload, chain, fence, delete }.encode_to_vec()
    })
}

fn any_failure() -> impl Strategy<Value = Vec<u8>> {
    let numbers = (any::<Option<u64>>(), any::<Option<u64>>(), any::<[u64; 3]>());
    let codes = (-1..80_i32, -1..9_i32);
    (codes, ".{0,8}", numbers).prop_map(|((code, option), node, (shard, fence, others))| {
        let [retry_after_ms, size, limit] = others;
        Failure { code, shard, fence, node, retry_after_ms, size, limit, option }.encode_to_vec()
    })
}

fn any_loads() -> impl Strategy<Value = Vec<u8>> {
    let numbers = || prop::collection::vec(any::<u64>(), 0..6);
    (numbers(), numbers())
        .prop_map(|(shards, loads)| LoadsResponse { shards, loads }.encode_to_vec())
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(
        message in prop_oneof![any_call(), any_failure(), any_loads()],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        any_bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        checks::message::any_type(&message);
        checks::message::any_type(&any_bytes);
        let mut changed = [message, vec![0]].concat();
        for (index, byte) in changes {
            *index.get_mut(&mut changed) = byte;
        }
        checks::message::any_type(&changed);
    }
}
