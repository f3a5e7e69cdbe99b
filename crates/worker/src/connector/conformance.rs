//! The contract of connectors, as scenarios for their tests.
//!
//! [`check`] enumerates an unchanging source in many ways and compares the results. It panics on
//! the first difference.

#![expect(clippy::panic, reason = "a scenario that fails panics, as tests do")]

use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_TOKEN_SIZE};
use shardwright_frontier::{KeyBuf, byte_midpoint};

use super::{Connector, ConnectorError, Item, KeyRange, PageLimit, Position, Quantity};

/// Most keys that are tried one by one where each costs an enumeration.
const TRIED_MAX: usize = 24;

/// Runs every scenario. Returns all items, in key order, for further checks.
pub async fn check(connector: &impl Connector) -> Vec<Item> {
    let ranges = expect(connector.initial_ranges(4).await);
    check_tiling(&ranges, 4);
    let whole = whole(&ranges);
    let all = read(connector, &whole, Position::start(), PageLimit::default(), true).await;
    check_keys(&all, &whole);
    check_outside(connector, &whole).await;
    check_initial_ranges(connector, &whole, &all).await;
    check_page_sizes(connector, &whole, &all).await;
    check_positions(connector, &whole, &all).await;
    check_foreign_positions(connector, &whole, &all).await;
    check_divisions(connector, &whole, &all).await;
    check_splits(connector, &whole, &all).await;
    check_estimates(connector, &whole, &all).await;
    check_fingerprint(connector).await;
    all
}

/// The range that holds all the given ones.
fn whole(ranges: &[KeyRange]) -> KeyRange {
    match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) => KeyRange::new(first.start.clone(), last.end.clone()),
        _ => panic!("there must be at least one initial range"),
    }
}

fn expect<T>(result: Result<T, ConnectorError>) -> T {
    result.unwrap_or_else(|error| panic!("the connector failed: {error:?}"))
}

/// Reads the items of a range after a position, page by page.
async fn read(
    connector: &impl Connector,
    range: &KeyRange,
    mut position: Position,
    limit: PageLimit,
    with_token: bool,
) -> Vec<Item> {
    let mut found = Vec::new();
    loop {
        let page = expect(connector.page(range, &position, limit).await);
        assert!(page.ended || !page.items.is_empty(), "only the last page may be empty");
        assert!(page.items.len() <= limit.items.max(1), "a page exceeds its limit");
        assert!(page.token.len() <= MAX_TOKEN_SIZE / 16, "a token is too long");
        let next = page.next_position();
        found.extend(page.items);
        if page.ended {
            return found;
        }
        if let Some(next) = next {
            position = next;
        }
        if !with_token {
            position.token.clear();
        }
    }
}

fn check_tiling(ranges: &[KeyRange], wanted: usize) {
    assert!(
        !ranges.is_empty() && ranges.len() <= wanted,
        "at most as many ranges as wanted, and at least one"
    );
    for range in ranges {
        assert!(!range.start.is_empty() && !range.end.is_empty(), "manifests reject open ranges");
        assert!(range.start < range.end, "an initial range is not empty");
        assert!(range.start.len() <= MAX_KEY_SIZE && range.end.len() <= MAX_KEY_SIZE);
    }
    for (one, next) in ranges.iter().zip(ranges.iter().skip(1)) {
        assert_eq!(one.end, next.start, "an initial range starts where the one before ends");
    }
}

fn check_keys(all: &[Item], whole: &KeyRange) {
    for (one, next) in all.iter().zip(all.iter().skip(1)) {
        assert!(one.key < next.key, "keys rise strictly: {:?} {:?}", one.key, next.key);
    }
    for item in all {
        assert!(whole.contains(&item.key), "a key is outside of all ranges: {:?}", item.key);
        assert!(!item.key.is_empty() && item.key.len() <= MAX_KEY_SIZE, "{:?}", item.key);
    }
}

/// Reads below and above all initial ranges.
async fn check_outside(connector: &impl Connector, whole: &KeyRange) {
    let below = KeyRange::new([], whole.start.clone());
    let above = KeyRange::new(whole.end.clone(), [0xff; MAX_KEY_SIZE]);
    for outside in [below, above] {
        let found = read(connector, &outside, Position::start(), PageLimit::items(1), true).await;
        assert!(found.is_empty(), "{} keys are outside of all ranges", found.len());
    }
}

async fn check_initial_ranges(connector: &impl Connector, whole_range: &KeyRange, all: &[Item]) {
    for wanted in [1, 2, 7, 64] {
        let ranges = expect(connector.initial_ranges(wanted).await);
        check_tiling(&ranges, wanted);
        assert_eq!(whole(&ranges), *whole_range, "any number of ranges covers the same keys");
        let mut found = Vec::new();
        for range in &ranges {
            let limit = PageLimit::default();
            found.extend(read(connector, range, Position::start(), limit, true).await);
        }
        assert_same(&found, all, "initial ranges together hold each item once");
    }
}

async fn check_page_sizes(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    let limits = [
        PageLimit { bytes: 0, ..PageLimit::items(0) },
        PageLimit::items(2),
        PageLimit::items(3),
        PageLimit::items(all.len().max(1)),
        PageLimit { bytes: 300, ..PageLimit::items(usize::MAX) },
    ];
    for limit in limits {
        for with_token in [true, false] {
            let found = read(connector, whole, Position::start(), limit, with_token).await;
            assert_same(&found, all, "pages of any size return the same items");
        }
    }
}

/// Resumes after each key, as a new holder would.
async fn check_positions(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    for at in sample(all.len()) {
        let (Some(item), Some(rest)) = (all.get(at), all.get(at + 1..)) else {
            continue;
        };
        let position = Position::after(item.key.to_vec());
        let found = read(connector, whole, position, PageLimit::items(5), true).await;
        assert_same(&found, rest, "resuming after a key returns the items that follow it");
    }
}

/// Resumes at positions that are not keys, and with tokens of other positions.
async fn check_foreign_positions(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    for between in points_between(whole, all) {
        let expected: Vec<Item> =
            all.iter().filter(|item| item.key.as_ref() > between.as_slice()).cloned().collect();
        for token in [&b""[..], &[0xff; 24], b"foreign"] {
            let position = Position::after(between.clone()).with_token(token);
            let found = read(connector, whole, position, PageLimit::items(7), true).await;
            assert_same(&found, &expected, "any bytes are a valid position, with any token");
        }
    }
    let first = expect(connector.page(whole, &Position::start(), PageLimit::items(1)).await);
    if let (Some(last), Some(before)) = (all.last(), all.len().checked_sub(2)) {
        let other = all.get(before).map_or(&[][..], |item| &item.key);
        let position = Position::after(other).with_token(&first.token);
        let found = read(connector, whole, position, PageLimit::items(7), true).await;
        assert_same(
            &found,
            std::slice::from_ref(last),
            "the token of another position changes nothing",
        );
    }
}

/// Cuts the whole range in two, at keys and between them, and then at all of them together.
async fn check_divisions(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    let keys = sample(all.len()).filter_map(|at| all.get(at)).map(|item| item.key.to_vec());
    let mut cuts: Vec<Vec<u8>> = keys.chain(points_between(whole, all)).collect();
    cuts.retain(|cut| *cut > whole.start && whole.is_below_end(cut));
    cuts.sort();
    cuts.dedup();
    let limit = PageLimit::items(4);
    for cut in &cuts {
        let left = KeyRange::new(whole.start.clone(), cut.clone());
        let right = KeyRange::new(cut.clone(), whole.end.clone());
        let mut found = read(connector, &left, Position::start(), limit, true).await;
        assert!(found.iter().all(|item| left.contains(&item.key)), "no key is after the cut");
        found.extend(read(connector, &right, Position::start(), limit, false).await);
        assert_same(&found, all, "two parts hold the same items as the whole");
    }
    let mut found = Vec::new();
    for part in whole.clone().cut(cuts) {
        found.extend(read(connector, &part, Position::start(), limit, true).await);
    }
    assert_same(&found, all, "many parts hold the same items as the whole");
}

/// Splits the rest after some keys, and its parts, until no part can be split.
async fn check_splits(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    for at in sample(all.len()) {
        let (Some(item), Some(rest)) = (all.get(at), all.get(at + 1..)) else {
            continue;
        };
        for fraction in [0.0, 0.5, 1.0, f64::NAN] {
            let cut = expect(connector.propose_split(whole, Some(&item.key), fraction).await);
            check_cut(cut.as_deref(), whole, rest);
        }
    }
    let mut pending = vec![whole.clone()];
    let mut pieces = 0;
    while let Some(range) = pending.pop() {
        let inside: Vec<Item> =
            all.iter().filter(|item| range.contains(&item.key)).cloned().collect();
        let cut = expect(connector.propose_split(&range, None, 0.5).await);
        check_cut(cut.as_deref(), &range, &inside);
        pieces += 1;
        if let Some(cut) = cut
            && pieces < 4 * TRIED_MAX
        {
            pending.extend(range.cut(vec![cut]));
        }
    }
}

fn check_cut(cut: Option<&[u8]>, range: &KeyRange, left: &[Item]) {
    match cut {
        None => assert!(left.len() < 2, "{} items can be split", left.len()),
        Some(cut) => {
            assert!(
                cut > range.start.as_slice() && range.is_below_end(cut),
                "a split is inside its range"
            );
            assert!(cut.len() <= MAX_KEY_SIZE, "a split is not longer than a key");
            let before = left.iter().filter(|item| item.key.as_ref() < cut).count();
            assert!(before > 0, "at least one item is before the split");
            assert!(before < left.len(), "at least one item is at or after the split");
        }
    }
}

async fn check_estimates(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    let keys = sample(all.len()).filter_map(|at| all.get(at).map(|item| (at + 1, &item.key)));
    let positions = std::iter::once((0, None)).chain(keys.map(|(done, key)| (done, Some(key))));
    for (done, after) in positions {
        let after = after.map(AsRef::as_ref);
        let estimate = expect(connector.estimate(whole, after).await);
        let left = all.get(done..).unwrap_or_default();
        let bytes = left.iter().map(|item| item.size).sum::<Option<u64>>();
        check_quantity(estimate.items, Some(left.len() as u64));
        check_quantity(estimate.bytes, bytes);
    }
}

fn check_quantity(estimated: Quantity, counted: Option<u64>) {
    match estimated {
        Quantity::Exact(exact) => {
            assert_eq!(Some(exact), counted, "an exact quantity equals the count")
        }
        Quantity::AtLeast(least) => {
            assert!(counted.is_none_or(|counted| least <= counted), "{least} of {counted:?}");
        }
        Quantity::About(_) | Quantity::Unknown => {}
    }
}

async fn check_fingerprint(connector: &impl Connector) {
    let one = expect(connector.fingerprint().await);
    let other = expect(connector.fingerprint().await);
    assert!(one.is_same_source(&other), "a fingerprint does not change");
    assert!(!one.identity.is_empty() && !one.identity.contains('\n'), "a fingerprint is one line");
}

fn assert_same(found: &[Item], expected: &[Item], what: &str) {
    let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected), "{what}");
    assert_eq!(found, expected, "{what}, with the same content");
}

/// Some of the indices below `count`, including the first and the last.
fn sample(count: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(TRIED_MAX).max(1);
    (0..count).filter(move |at| at % step == 0 || at + 1 == count)
}

/// Points between keys, before and after all of them, and right beside them.
fn points_between(whole: &KeyRange, all: &[Item]) -> Vec<Vec<u8>> {
    let mut points = vec![whole.start.clone(), vec![0], vec![0xff; 300], vec![b'a']];
    let mut buffer = KeyBuf::new();
    for at in sample(all.len()) {
        let (Some(one), next) = (all.get(at), all.get(at + 1)) else {
            continue;
        };
        let next = next.map_or(whole.end.as_slice(), |item| &item.key);
        points.extend(byte_midpoint(&one.key, next, &mut buffer).map(<[u8]>::to_vec));
        points.push([&one.key, &[0][..]].concat());
        points.push([&one.key, &b"/"[..]].concat());
        points.push(one.key.get(..one.key.len() / 2).unwrap_or_default().to_vec());
    }
    points.retain(|point| !point.is_empty());
    points
}
