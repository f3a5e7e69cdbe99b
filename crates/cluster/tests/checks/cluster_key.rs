use shardwright_cluster::keys::{ClusterKeys, ClusterName};
use shardwright_engine::keyspace::Keyspace;
use shardwright_store::Key;

/// Parsing never panics, and accepts exactly the keys that encoding writes, in both formats.
pub(crate) fn any_bytes(data: &[u8]) {
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
