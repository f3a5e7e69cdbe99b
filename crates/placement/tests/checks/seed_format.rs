use shardwright_placement::seed_format::{SeedKey, SeedShard};

/// Parsing a value never panics, and accepts exactly what formatting writes.
pub(crate) fn value(text: &str) {
    if let Ok(shard) = SeedShard::parse(text) {
        assert_eq!(shard.to_string(), text);
        // Each flag has at least a separator and its prefix.
        assert!(shard.flags.iter().len() * 3 < text.len());
    }
}

/// Parsing a key never panics, and accepts exactly what formatting writes.
pub(crate) fn key(text: &str) {
    for prefix in ["", "/cluster"] {
        for key in [text.to_owned(), format!("{prefix}/{text}")] {
            if let Ok(parsed) = SeedKey::parse(prefix, &key) {
                assert_eq!(parsed.format(prefix), key);
            }
        }
    }
}
