use shardwright_placement::limits::{MAX_NODE_ADDRESS_SIZE, MAX_NUM_SHARDS, MAX_OBJECT_ID_SIZE};
use shardwright_placement::{NodeAddress, ObjectId, ObjectIdRef, ObjectLocation};

/// Parsing an id never panics, keeps its text, and finds the location that the text names.
pub(crate) fn object_id(text: &str) {
    let parsed = ObjectIdRef::parse(text);
    assert_eq!(ObjectId::parse(text).as_ref().map(ObjectId::borrowed), parsed.as_ref().copied());
    let Ok(id) = parsed else { return };
    assert_eq!(id.as_str(), text);
    assert!(text.len() <= MAX_OBJECT_ID_SIZE);
    let before = match id.location() {
        ObjectLocation::Hashed => {
            assert!(!text.contains('/'));
            return;
        }
        ObjectLocation::Shard(shard) => {
            assert!(shard.as_raw() < u64::from(MAX_NUM_SHARDS));
            format!("shard#{}", shard.as_raw())
        }
        ObjectLocation::Node(address) => NodeAddress::parse(address).unwrap().to_string(),
    };
    let object = text.strip_prefix(&before).and_then(|rest| rest.strip_prefix('/')).unwrap();
    assert!(!object.is_empty());
}

/// Parsing an address never panics and keeps its text, which separates no id and no value.
pub(crate) fn node_address(text: &str) {
    if let Ok(address) = NodeAddress::parse(text) {
        assert_eq!(address.as_str(), text);
        assert!(!text.is_empty() && text.len() <= MAX_NODE_ADDRESS_SIZE);
        assert!(!text.contains(['/', ',', ' ']) && !text.starts_with("shard#"));
        let named = format!("{text}/object");
        let location = ObjectIdRef::parse(&named).unwrap().location();
        assert_eq!(location, ObjectLocation::Node(text));
    }
}
