use shardwright_jobs::description::Description;

/// Decoding never panics, and a description survives being encoded again.
pub(crate) fn description(data: &[u8]) {
    let Ok(description) = Description::decode(data) else { return };
    let encoded = description.encode().unwrap();
    assert_eq!(Description::decode(&encoded).unwrap(), description);
    assert_eq!(description.command().len(), description.command.len());
    let _given = description.given();
    let _title = description.source.title();
    if let Ok(ranges) = description.ranges() {
        // Two digits of hex are a byte.
        let bytes: usize = ranges.iter().map(|range| range.start.len() + range.end.len()).sum();
        assert!(bytes * 2 <= data.len());
    }
}
