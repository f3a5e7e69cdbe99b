//! Tokens of cursors come from the store.

use proptest::prelude::*;
use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_worker::extent::{Extent, TokenEnvelope};

use crate::checks;

fn any_extent() -> impl Strategy<Value = Extent> {
    (any::<[u64; 3]>(), 1..u64::MAX, any::<[u8; 32]>()).prop_map(|(numbers, fence, digest)| {
        let [shard, length, items] = numbers;
        let (shard, fence) = (ShardId::from_raw(shard), FenceEpoch::from_raw(fence).unwrap());
        Extent { shard, fence, length, items, digest }
    })
}

fn any_token() -> impl Strategy<Value = Vec<u8>> {
    let extents = prop::collection::vec(any_extent(), 0..4);
    let connector = prop::collection::vec(any::<u8>(), 0..80);
    (any::<[u64; 4]>(), extents, connector).prop_map(|(numbers, extents, connector)| {
        let [items, bytes, retries, failed] = numbers;
        TokenEnvelope { connector, items, bytes, retries, failed, extents }.encode()
    })
}

proptest! {
    #[test]
    fn any_bytes_are_a_token_or_an_error(
        token in any_token(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any_bytes in prop::collection::vec(any::<u8>(), 0..200),
        end in any::<prop::sample::Index>(),
    ) {
        checks::token::envelope(&token);
        checks::token::envelope(&token[..end.index(token.len())]);
        checks::token::envelope(&any_bytes);
        let mut changed = token;
        for (index, byte) in changes {
            *index.get_mut(&mut changed) = byte;
        }
        checks::token::envelope(&changed);
    }
}
