//! Ids, addresses and the text format come from clients and from the store.

use proptest::prelude::*;

use crate::checks;

/// Texts that often look like an id, an address, or a value or key of the text format.
fn texts() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "shard#",
        "shard",
        "nodes",
        "gates",
        "leader",
        "/",
        ",",
        "f=",
        "pinned",
        "home=",
        "0",
        "7",
        "4194303",
        "4194304",
        "node1:47001",
        "[::1]:1",
        "\u{e9}",
        " ",
        "\n",
        "+",
    ]);
    let words = prop::collection::vec(word, 0..8).prop_map(|words| words.concat());
    prop_oneof![3 => words, 1 => ".{0,40}", 1 => (500..4_200_usize).prop_map(|len| "a".repeat(len))]
}

proptest! {
    #[test]
    fn any_text_is_an_object_id_or_an_error(text in texts()) {
        checks::object_id::object_id(&text);
        checks::object_id::node_address(&text);
    }

    #[test]
    fn any_text_is_a_value_of_a_cluster_or_an_error(text in texts()) {
        checks::seed_format::value(&text);
        checks::seed_format::key(&text);
    }
}
