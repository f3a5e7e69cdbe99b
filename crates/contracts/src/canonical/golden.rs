//! The canonical bytes of every type that has them, as listed in `docs/formats.md`.

use crate::{
    CanonicalBytes, Cursor, CursorSemantics, CursorUpdate, FenceEpoch, LogicalTime, OpId, RunId,
    ShardId, ShardKey, ShardSpec, ShardSpecRef, TenantId, WorkerId, plan_split_replace,
    plan_split_residual,
};

fn bytes_of(value: &impl CanonicalBytes) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.write_canonical(&mut bytes);
    bytes
}

const NUMBER: u64 = 0x0807_0605_0403_0201;
const EIGHT: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn numbers_are_eight_bytes_little_endian() {
    assert_eq!(bytes_of(&RunId::from_raw(NUMBER)), EIGHT);
    assert_eq!(bytes_of(&ShardId::from_raw(NUMBER)), EIGHT);
    assert_eq!(bytes_of(&WorkerId::from_raw(NUMBER)), EIGHT);
    assert_eq!(bytes_of(&OpId::from_raw(NUMBER)), EIGHT);
    assert_eq!(bytes_of(&FenceEpoch::from_raw(NUMBER).unwrap()), EIGHT);
    assert_eq!(bytes_of(&LogicalTime::from_millis(NUMBER)), EIGHT);
}

#[test]
fn fixed_widths_have_no_length() {
    assert_eq!(bytes_of(&TenantId::from_bytes([7; 32])), [7; 32]);
    let key = ShardKey::new(RunId::from_raw(NUMBER), ShardId::from_raw(1));
    assert_eq!(bytes_of(&key), [&EIGHT[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat());
    assert_eq!(bytes_of(&CursorSemantics::Completed), [0]);
    assert_eq!(bytes_of(&CursorSemantics::Dispatched), [1]);
}

#[test]
fn owned_and_borrowed_forms_are_the_same() {
    let update = CursorUpdate::new(Some(b"k"), Some(b"t"));
    let cursor = Cursor::try_from_update(update).unwrap();
    assert_eq!(bytes_of(&update), b"\x01\x01\0\0\0k\x01\x01\0\0\0t");
    assert_eq!(bytes_of(&cursor), bytes_of(&update));
    assert_eq!(bytes_of(&Cursor::initial()), [0, 0]);

    let view = ShardSpecRef::new(b"a", b"bc", b"m");
    assert_eq!(bytes_of(&view), b"\x01\0\0\0a\x02\0\0\0bc\x01\0\0\0m");
    assert_eq!(bytes_of(&ShardSpec::try_from_ref(view).unwrap()), bytes_of(&view));
}

#[test]
fn plans_are_lists_of_their_parts() {
    let parent = ShardSpecRef::new(b"a", b"z", b"");
    let cursor = CursorUpdate::at(b"b");
    let left = b"\x01\0\0\0a\x01\0\0\0m\0\0\0\0";
    let right = b"\x01\0\0\0m\x01\0\0\0z\0\0\0\0";
    let residual = plan_split_residual(parent, cursor, b"m").unwrap();
    assert_eq!(bytes_of(&residual), [&left[..], right].concat());
    let replace = plan_split_replace(parent, cursor, &[b"m"]).unwrap();
    let parts: [&[u8]; 5] = [b"\x02\0\0\0", left, b"\x01\x01\0\0\0b\0", right, b"\0\0"];
    assert_eq!(bytes_of(&replace), parts.concat());
}
