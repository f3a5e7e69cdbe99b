//! What every connector must do, as scenarios for its tests.
//!
//! [`check`] enumerates a source that does not change meanwhile in every way it can think of and
//! compares what it gets. It panics with a sentence on the first difference.

#![expect(clippy::panic, reason = "a scenario that fails panics, as tests do")]

use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_TOKEN_SIZE};
use shardwright_frontier::{KeyBuf, byte_midpoint};

use super::{Connector, ConnectorError, Item, KeyRange, PageLimit, Position, Quantity};

/// How many keys are tried one by one where each costs an enumeration.
const TRIED_MAX: usize = 24;

/// Runs every scenario; gives back all items, in key order, for further questions.
pub async fn check(connector: &impl Connector) -> Vec<Item> {
    let ranges = tell(connector.initial_ranges(4).await);
    check_tiling(&ranges, 4);
    let whole = whole(&ranges);
    let all = read(connector, &whole, Position::start(), PageLimit::default(), true).await;
    check_keys(&all, &whole);
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

/// The range that holds what all of the given ones do.
fn whole(ranges: &[KeyRange]) -> KeyRange {
    match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) => KeyRange::new(first.start.clone(), last.end.clone()),
        _ => panic!("there must be at least one initial range"),
    }
}

fn tell<T>(result: Result<T, ConnectorError>) -> T {
    result.unwrap_or_else(|error| panic!("the connector failed: {error:?}"))
}

/// Everything in a range behind a position, page by page.
async fn read(
    connector: &impl Connector,
    range: &KeyRange,
    mut position: Position,
    limit: PageLimit,
    with_token: bool,
) -> Vec<Item> {
    let mut found = Vec::new();
    loop {
        let page = tell(connector.page(range, &position, limit).await);
        assert!(page.ended || !page.items.is_empty(), "only the last page may be empty");
        assert!(page.items.len() <= limit.items.max(1), "a page is no longer than it may be");
        assert!(page.token.len() <= MAX_TOKEN_SIZE / 16, "a token is small");
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
    assert!(!ranges.is_empty() && ranges.len() <= wanted, "as many ranges as wanted, or fewer");
    for range in ranges {
        assert!(!range.start.is_empty() && !range.end.is_empty(), "manifests refuse open ranges");
        assert!(range.start < range.end, "an initial range is not empty");
        assert!(range.start.len() <= MAX_KEY_SIZE && range.end.len() <= MAX_KEY_SIZE);
    }
    for (one, next) in ranges.iter().zip(ranges.iter().skip(1)) {
        assert_eq!(one.end, next.start, "each initial range begins where the last one ends");
    }
}

fn check_keys(all: &[Item], whole: &KeyRange) {
    for (one, next) in all.iter().zip(all.iter().skip(1)) {
        assert!(one.key < next.key, "keys rise strictly: {:?} {:?}", one.key, next.key);
    }
    for item in all {
        assert!(whole.contains(&item.key), "no key lies outside of all ranges: {:?}", item.key);
        assert!(!item.key.is_empty() && item.key.len() <= MAX_KEY_SIZE, "{:?}", item.key);
    }
}

async fn check_initial_ranges(connector: &impl Connector, whole_range: &KeyRange, all: &[Item]) {
    for wanted in [1, 2, 7, 64] {
        let ranges = tell(connector.initial_ranges(wanted).await);
        check_tiling(&ranges, wanted);
        assert_eq!(whole(&ranges), *whole_range, "any number of ranges covers the same keys");
        let mut found = Vec::new();
        for range in &ranges {
            let limit = PageLimit::default();
            found.extend(read(connector, range, Position::start(), limit, true).await);
        }
        assert_same(&found, all, "initial ranges together hold every item once");
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
            assert_same(&found, all, "pages of any size give the same items");
        }
    }
}

/// Goes on behind every key, as a fresh holder would.
async fn check_positions(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    for at in sample(all.len()) {
        let (Some(item), Some(rest)) = (all.get(at), all.get(at + 1..)) else {
            continue;
        };
        let position = Position::behind(item.key.to_vec());
        let found = read(connector, whole, position, PageLimit::items(5), true).await;
        assert_same(&found, rest, "behind any key follows what followed before");
    }
}

/// Goes on from places that are no keys, and with tokens that belong elsewhere.
async fn check_foreign_positions(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    for between in points_between(whole, all) {
        let expected: Vec<Item> =
            all.iter().filter(|item| item.key.as_ref() > between.as_slice()).cloned().collect();
        for token in [&b""[..], &[0xff; 24], b"foreign"] {
            let position = Position::behind(between.clone()).with_token(token);
            let found = read(connector, whole, position, PageLimit::items(7), true).await;
            assert_same(&found, &expected, "any bytes are a position, whatever the token says");
        }
    }
    let first = tell(connector.page(whole, &Position::start(), PageLimit::items(1)).await);
    if let (Some(last), Some(before)) = (all.last(), all.len().checked_sub(2)) {
        let elsewhere = all.get(before).map_or(&[][..], |item| &item.key);
        let position = Position::behind(elsewhere).with_token(&first.token);
        let found = read(connector, whole, position, PageLimit::items(7), true).await;
        assert_same(&found, std::slice::from_ref(last), "another position's token does no harm");
    }
}

/// Divides the whole range in two at keys and between them, and in many at once.
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
        assert!(found.iter().all(|item| left.contains(&item.key)), "nothing beyond the cut");
        found.extend(read(connector, &right, Position::start(), limit, false).await);
        assert_same(&found, all, "two parts give what the whole gives");
    }
    let mut found = Vec::new();
    for part in whole.clone().cut(cuts) {
        found.extend(read(connector, &part, Position::start(), limit, true).await);
    }
    assert_same(&found, all, "many parts give what the whole gives");
}

/// Splits what is left behind some keys, and what comes of it, until nothing can be split.
async fn check_splits(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    for at in sample(all.len()) {
        let (Some(item), Some(rest)) = (all.get(at), all.get(at + 1..)) else {
            continue;
        };
        for fraction in [0.0, 0.5, 1.0, f64::NAN] {
            let cut = tell(connector.propose_split(whole, Some(&item.key), fraction).await);
            check_cut(cut.as_deref(), whole, rest);
        }
    }
    let mut pending = vec![whole.clone()];
    let mut pieces = 0;
    while let Some(range) = pending.pop() {
        let inside: Vec<Item> =
            all.iter().filter(|item| range.contains(&item.key)).cloned().collect();
        let cut = tell(connector.propose_split(&range, None, 0.5).await);
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
        None => assert!(left.len() < 2, "{} items can be divided", left.len()),
        Some(cut) => {
            assert!(cut > range.start.as_slice() && range.is_below_end(cut), "inside the range");
            assert!(cut.len() <= MAX_KEY_SIZE, "a cut is a key");
            let before = left.iter().filter(|item| item.key.as_ref() < cut).count();
            assert!(before > 0, "something is before the cut");
            assert!(before < left.len(), "something is at or behind the cut");
        }
    }
}

async fn check_estimates(connector: &impl Connector, whole: &KeyRange, all: &[Item]) {
    let keys = sample(all.len()).filter_map(|at| all.get(at).map(|item| (at + 1, &item.key)));
    let places = std::iter::once((0, None)).chain(keys.map(|(left, key)| (left, Some(key))));
    for (done, after) in places {
        let after = after.map(AsRef::as_ref);
        let estimate = tell(connector.estimate(whole, after).await);
        let left = all.get(done..).unwrap_or_default();
        let bytes = left.iter().map(|item| item.size).sum::<Option<u64>>();
        check_quantity(estimate.items, Some(left.len() as u64));
        check_quantity(estimate.bytes, bytes);
    }
}

fn check_quantity(estimated: Quantity, counted: Option<u64>) {
    match estimated {
        Quantity::Exact(exact) => assert_eq!(Some(exact), counted, "an exact number is exact"),
        Quantity::AtLeast(least) => {
            assert!(counted.is_none_or(|counted| least <= counted), "{least} of {counted:?}");
        }
        Quantity::About(_) | Quantity::Unknown => {}
    }
}

async fn check_fingerprint(connector: &impl Connector) {
    let one = tell(connector.fingerprint().await);
    let other = tell(connector.fingerprint().await);
    assert!(one.is_same_source(&other), "a source is the same as itself");
    assert!(!one.identity.is_empty() && !one.identity.contains('\n'), "it is one line");
}

fn assert_same(found: &[Item], expected: &[Item], what: &str) {
    let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected), "{what}");
    assert_eq!(found, expected, "{what}, with the same content");
}

/// Some of the indices below `count`, the first and the last among them.
fn sample(count: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(TRIED_MAX).max(1);
    (0..count).filter(move |at| at % step == 0 || at + 1 == count)
}

/// Places that lie between keys, before and behind all of them, and just beside one.
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
