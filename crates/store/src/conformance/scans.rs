//! The contents and the order of scans.

use super::{Harness, Space};
use crate::{Key, ScanError, ScanFrom, Store, StoreRange, Versioned};

async fn scan<H: Harness>(
    space: &Space<'_, H>,
    range: &StoreRange,
    limit: usize,
) -> Result<Vec<(Key, Versioned)>, ScanError> {
    let mut page = space.store.scan(range, ScanFrom::first(limit)).await?;
    let (revision, mut entries) = (page.revision, page.entries);
    while let Some(next) = page.next {
        assert_eq!(next.revision, revision);
        page = space.store.scan(range, ScanFrom { limit, after: Some(next) }).await?;
        assert_eq!(page.revision, revision, "a page has another revision");
        assert!(page.entries.len() <= limit);
        entries.extend(page.entries);
    }
    assert!(entries.is_sorted_by(|(one, _), (other, _)| one < other));
    Ok(entries)
}

async fn names<H: Harness>(space: &Space<'_, H>, range: &StoreRange) -> Vec<Vec<u8>> {
    let entries = scan(space, range, 100).await.unwrap();
    entries.iter().map(|(key, _)| key.as_bytes()[space.prefix.len()..].to_vec()).collect()
}

/// A shorter key sorts before a longer one, and bytes compare as unsigned numbers.
pub async fn keys_are_ordered_as_bytes<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let ordered: [&[u8]; 9] =
        [b"\0", b"\0\0", b"\x01", b"10", b"9", b"A", b"a", b"a\0", b"\xff\xfe"];
    for name in ordered.iter().rev() {
        space.put(name, "").await;
    }
    assert_eq!(names(&space, &space.range()).await, ordered);
}

/// A range includes its start and excludes its end.
pub async fn a_range_has_its_start_and_not_its_end<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    for name in ["a", "b", "c", "d"] {
        space.put(name, "").await;
    }
    let range = |start: &str, end: &str| StoreRange::new(space.key(start), Some(space.key(end)));
    assert_eq!(names(&space, &range("b", "d")).await, [b"b", b"c"]);
    assert_eq!(names(&space, &range("aa", "cc")).await, [b"b", b"c"]);
    assert!(names(&space, &range("b", "b")).await.is_empty());
    assert!(names(&space, &range("d", "b")).await.is_empty());
    assert!(names(&space, &range("x", "y")).await.is_empty());
    let from_c = StoreRange::new(space.key("c"), None);
    let found = scan(&space, &from_c, 2).await.unwrap();
    assert_eq!([&found[0].0, &found[1].0], [&space.key("c"), &space.key("d")]);
}

/// The end of a prefix of highest bytes is not the prefix plus one byte.
pub async fn a_prefix_of_highest_bytes_reaches_its_end<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let inside: [&[u8]; 3] = [b"\xff", b"\xff\0", b"\xff\xff\xff"];
    for name in inside {
        space.put(name, "").await;
    }
    space.put(b"\xfe", "").await;
    assert_eq!(names(&space, &space.range_of(b"\xff")).await, inside);
}

/// Pages of any size together make up the range.
pub async fn pages_cover_the_range<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let mut expected = Vec::new();
    for number in 0..23 {
        let name = format!("{number:02}");
        let revision = space.put(&name, name.clone()).await;
        expected.push((space.key(&name), revision));
    }
    for limit in [1, 2, 7, 22, 23, 24, 1_000] {
        let entries = scan(&space, &space.range(), limit).await.unwrap();
        let found: Vec<_> = entries.into_iter().map(|(key, found)| (key, found.revision)).collect();
        assert_eq!(found, expected, "pages of {limit}");
    }
    let first = space.store.scan(&space.range(), ScanFrom::first(7)).await.unwrap();
    assert!(!first.entries.is_empty() && first.entries.len() <= 7 && first.next.is_some());
}

/// Commits between two pages are invisible, or the scan reports that it has moved.
pub async fn pages_are_of_one_revision_or_the_scan_has_moved<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    for number in 0..20 {
        space.put(format!("{number:02}"), "before").await;
    }
    let limit = 5;
    let first = space.store.scan(&space.range(), ScanFrom::first(limit)).await.unwrap();
    // One key before the position of the scan, some after it, a new one, and a deleted one.
    space.put("01", "after").await;
    space.put("15", "after").await;
    space.put("155", "after").await;
    space.delete("17").await;
    let mut entries = first.entries;
    let mut next = first.next;
    while let Some(after) = next {
        let page = ScanFrom { limit, after: Some(after) };
        match space.store.scan(&space.range(), page).await {
            Ok(page) => {
                assert_eq!(page.revision, first.revision);
                entries.extend(page.entries);
                next = page.next;
            }
            Err(ScanError::Moved) => return,
            Err(ScanError::Store(error)) => panic!("{error}"),
        }
    }
    let names: Vec<_> = entries.iter().map(|(key, _)| key.clone()).collect();
    let expected: Vec<_> = (0..20).map(|number| space.key(format!("{number:02}"))).collect();
    assert_eq!(names, expected);
    assert!(entries.iter().all(|(_, found)| found.value == "before"));
}

/// After a compaction, a scan never continues at another revision.
pub async fn compacted_revision_cannot_be_scanned<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    for name in ["a", "b", "c"] {
        space.put(name, "").await;
    }
    let first = space.store.scan(&space.range(), ScanFrom::first(1)).await.unwrap();
    let now = space.put("a", "later").await;
    if !harness.compact(now).await {
        return;
    }
    let page = ScanFrom { limit: 1, after: first.next };
    match space.store.scan(&space.range(), page).await {
        Err(ScanError::Moved) => {}
        // A store may keep a revision while a scan uses it.
        Ok(page) => assert_eq!(page.revision, first.revision),
        Err(ScanError::Store(error)) => panic!("{error}"),
    }
    assert_eq!(names(&space, &space.range()).await, [b"a", b"b", b"c"]);
}
