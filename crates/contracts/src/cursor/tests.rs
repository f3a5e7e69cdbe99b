use proptest::prelude::*;

use super::*;

fn spec<'a>(start: &'a [u8], end: &'a [u8]) -> ShardSpecRef<'a> {
    ShardSpecRef::new(start, end, b"")
}

#[test]
fn semantics_bytes_are_stable_and_unknown_ones_refused() {
    for semantics in [CursorSemantics::Completed, CursorSemantics::Dispatched] {
        assert_eq!(CursorSemantics::try_from(semantics as u8), Ok(semantics));
    }
    for byte in 2..=u8::MAX {
        assert_eq!(CursorSemantics::try_from(byte), Err(UnknownCursorSemantics(byte)));
    }
    assert_eq!(CursorSemantics::default(), CursorSemantics::Completed);
    let mut bytes = Vec::new();
    CursorSemantics::Dispatched.write_canonical(&mut bytes);
    assert_eq!(bytes, [1]);
}

#[test]
fn empty_token_is_no_token() {
    let update = CursorUpdate::new(Some(b"k"), Some(b""));
    assert_eq!(update, CursorUpdate::at(b"k"));
    assert_eq!(update.token(), None);
    assert_eq!(CursorUpdate::new(None, Some(b"")), CursorUpdate::initial());
}

#[test]
fn form_and_sizes_are_checked_key_first() {
    let long_key = vec![1; MAX_KEY_SIZE + 1];
    let long_token = vec![1; MAX_TOKEN_SIZE + 1];
    let check = |key, token| CursorUpdate::new(key, token).validate();

    assert_eq!(check(None, None), Ok(()));
    assert_eq!(check(Some(&long_key[1..]), Some(&long_token[1..])), Ok(()));
    assert_eq!(check(Some(b""), None), Err(CursorInputError::EmptyLastKey));
    assert_eq!(check(None, Some(b"t")), Err(CursorInputError::TokenWithoutKey));
    assert_eq!(
        check(Some(&long_key), Some(&long_token)),
        Err(CursorInputError::KeyTooLarge { size: MAX_KEY_SIZE + 1, max: MAX_KEY_SIZE })
    );
    assert_eq!(
        check(Some(b"k"), Some(&long_token)),
        Err(CursorInputError::TokenTooLarge { size: MAX_TOKEN_SIZE + 1, max: MAX_TOKEN_SIZE })
    );
}

#[test]
fn monotonicity_table_holds_row_by_row() {
    let none = CursorUpdate::initial();
    let at = |key: &'static [u8]| CursorUpdate::at(key);
    assert_eq!(none.check_advance(none), Ok(()));
    assert_eq!(none.check_advance(at(b"k")), Ok(()));
    assert_eq!(at(b"a").check_advance(at(b"b")), Ok(()));
    assert_eq!(at(b"a").check_advance(at(b"a")), Ok(()));
    assert_eq!(at(b"a").check_advance(none), Err(CursorRegression::Reset));
    assert_eq!(at(b"b").check_advance(at(b"a")), Err(CursorRegression::Backwards));
    assert_eq!(at(b"ab").check_advance(at(b"a")), Err(CursorRegression::Backwards));
}

#[test]
fn bounds_are_those_of_the_half_open_range() {
    let range = spec(b"b", b"d");
    assert!(CursorUpdate::initial().is_within(range));
    assert!(CursorUpdate::at(b"b").is_within(range));
    assert!(CursorUpdate::at(b"c\xff").is_within(range));
    assert!(!CursorUpdate::at(b"a\xff").is_within(range));
    assert!(!CursorUpdate::at(b"d").is_within(range));
    assert!(CursorUpdate::at(b"\xff\xff").is_within(spec(b"b", b"")));
}

#[test]
fn owned_cursor_is_checked_and_lends_itself_back() {
    let update = CursorUpdate::new(Some(b"key"), Some(b"token"));
    let cursor = Cursor::try_from_update(update).unwrap();
    assert_eq!(cursor.as_update(), update);
    assert_eq!((update.last_key(), update.token()), (Some(&b"key"[..]), Some(&b"token"[..])));
    assert!(!update.is_initial());
    assert!(Cursor::initial().as_update().is_initial());
    assert_eq!(Cursor::try_from_update(CursorUpdate::initial()), Ok(Cursor::initial()));
    assert_eq!(Cursor::try_from_update(CursorUpdate::at(b"")), Err(CursorInputError::EmptyLastKey));
}

#[test]
fn debug_shows_lengths_only() {
    let update = CursorUpdate::new(Some(b"secret"), Some(b"tok"));
    let text = format!("{update:?} {:?}", Cursor::try_from_update(update).unwrap());
    assert!(!text.contains("secret") && !text.contains("115"), "{text}");
    assert_eq!(text.matches("<6 bytes>").count(), 2, "{text}");
    assert_eq!(text.matches("<3 bytes>").count(), 2, "{text}");
}

#[test]
fn golden_canonical_bytes() {
    let written = |cursor: CursorUpdate<'_>| {
        let mut bytes = Vec::new();
        cursor.write_canonical(&mut bytes);
        bytes
    };
    assert_eq!(written(CursorUpdate::initial()), [0, 0]);
    assert_eq!(written(CursorUpdate::at(b"k")), [1, 1, 0, 0, 0, b'k', 0]);
    assert_eq!(
        written(CursorUpdate::new(Some(b"k"), Some(b"t"))),
        [1, 1, 0, 0, 0, b'k', 1, 1, 0, 0, 0, b't']
    );
}

proptest! {
    #[test]
    fn accepted_move_never_loses_progress(
        old in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..4)),
        new in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..4)),
    ) {
        let from = CursorUpdate::new(old.as_deref(), None);
        let to = CursorUpdate::new(new.as_deref(), None);
        // `None` sorts before every key, so the whole table means: not below.
        prop_assert_eq!(from.check_advance(to).is_ok(), old <= new);
    }
}

#[test]
fn owned_cursor_equals_its_input() {
    let owned = CursorInput::new(Some(b"k".to_vec()), Some(Vec::new()));
    assert_eq!(owned.as_ref(), CursorUpdate::at(b"k"));
    assert_eq!(owned.map(Clone::clone), owned);
    assert_eq!(format!("{owned:?}"), "CursorUpdate { last_key: Some(<1 bytes>), token: None }");
    assert_eq!(CursorInput::<Vec<u8>>::default().as_ref(), CursorUpdate::initial());
}
