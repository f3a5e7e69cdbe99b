use shardwright_engine::keyspace::{ClusterKeys, ClusterName, Keyspace};
use shardwright_store::Key;

/// Parsing never panics, and what it accepts is exactly what the keyspace writes.
pub(crate) fn any_bytes(data: &[u8]) {
    for prefix in ["", "p/"] {
        let keyspace = Keyspace::new(prefix).unwrap();
        for bytes in [data.to_vec(), [prefix.as_bytes(), data].concat()] {
            let key = Key::from(bytes);
            if let Some(parsed) = keyspace.parse(&key) {
                assert_eq!(keyspace.key(&parsed), key);
                assert!(keyspace.everything().contains(&key));
                assert!(key.as_bytes().len() <= Keyspace::KEY_BYTES_MAX);
            }
            let kinds = [
                keyspace.parse_run(&key).is_some(),
                keyspace.parse_shard(&key).is_some(),
                keyspace.parse_view(&key).is_some(),
            ];
            assert!(kinds.iter().filter(|parsed| **parsed).count() <= 1);
        }
    }
    any_cluster_key(data);
    if let Ok(text) = str::from_utf8(data)
        && let Ok(keyspace) = Keyspace::new(text)
    {
        assert!(keyspace.clock().as_bytes().starts_with(data));
    }
}

/// The same for the keys of a cluster, stored in either way.
fn any_cluster_key(data: &[u8]) {
    let (keys, name) = (Keyspace::new("p/").unwrap(), ClusterName::parse("c").unwrap());
    let text = ClusterKeys::with_text(&keys, "t").unwrap();
    for keys in [ClusterKeys::new(&keys, &name), text] {
        for prefix in ["", "p/cluster/c/", "t/"] {
            let key = Key::from([prefix.as_bytes(), data].concat());
            if let Some(parsed) = keys.parse(&key) {
                assert_eq!(keys.key(&parsed), key);
                let range = keys.ranges().into_iter().nth(keys.range_of(&parsed)).unwrap();
                assert!(range.contains(&key));
            }
        }
    }
}
