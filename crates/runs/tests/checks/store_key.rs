use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_store::Key;

/// Parsing never panics, and what it accepts is exactly what the keyspace writes.
pub(crate) fn any_bytes(data: &[u8]) {
    for prefix in ["", "p/"] {
        let keyspace = RunKeys::new(Keyspace::new(prefix).unwrap());
        for bytes in [data.to_vec(), [prefix.as_bytes(), data].concat()] {
            let key = Key::from(bytes);
            if let Some(parsed) = keyspace.parse(&key) {
                assert_eq!(keyspace.key(&parsed), key);
                assert!(keyspace.keyspace().everything().contains(&key));
                assert!(key.as_bytes().len() <= RunKeys::KEY_BYTES_MAX);
            }
            let kinds = [
                keyspace.parse_run(&key).is_some(),
                keyspace.parse_shard(&key).is_some(),
                keyspace.parse_view(&key).is_some(),
            ];
            assert!(kinds.iter().filter(|parsed| **parsed).count() <= 1);
        }
    }
    if let Ok(text) = str::from_utf8(data)
        && let Ok(keyspace) = Keyspace::new(text)
    {
        assert!(keyspace.clock().as_bytes().starts_with(data));
    }
}
