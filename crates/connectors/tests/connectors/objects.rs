//! Objects of stores: in memory, in local folders, and behind an S3 server.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shardwright_connectors::{ListingOrder, ObjectConnector};
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, Page, PageLimit, Payload, Position, Quantity, SkipReason,
    conformance,
};
use tempfile::TempDir;

use crate::listing_server::ListingServer;
use crate::support::read_whole;

async fn fill(store: &dyn ObjectStore, objects: &BTreeMap<String, usize>) {
    for (key, size) in objects {
        let content = vec![b'x'; *size].into();
        store.put(&Path::parse(format!("in/{key}")).unwrap(), content).await.unwrap();
    }
    store.put(&Path::from("outside"), "x".into()).await.unwrap();
    store.put(&Path::from("in.txt"), "x".into()).await.unwrap();
    store.put(&Path::from("inside/x"), "x".into()).await.unwrap();
}

fn connector(store: Arc<dyn ObjectStore>, order: ListingOrder) -> ObjectConnector {
    ObjectConnector::with_store(store, "in", "memory:///in", order).unwrap()
}

async fn everything(objects: &ObjectConnector) -> Page {
    read_whole(objects, &ObjectConnector::whole_range()).await
}

fn keys(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| std::str::from_utf8(&item.key).unwrap()).collect()
}

fn sized(names: &[&str]) -> BTreeMap<String, usize> {
    names.iter().map(|name| ((*name).to_owned(), 1)).collect()
}

#[tokio::test]
async fn objects_come_in_byte_order_with_their_sizes() {
    let store = Arc::new(InMemory::new());
    let mut objects = sized(&["a/b", "a.txt", "a0", "a/b0", "é", "A"]);
    objects.insert("a/long".to_owned(), 33);
    fill(store.as_ref(), &objects).await;
    for order in [ListingOrder::Bytes, ListingOrder::Folders] {
        let page = everything(&connector(store.clone(), order)).await;
        assert_eq!(keys(&page.items), ["A", "a.txt", "a/b", "a/b0", "a/long", "a0", "é"]);
        assert_eq!(page.items[4].size, Some(33));
        let Payload::Object { path, url, modified_ms } = &page.items[4].payload else { panic!() };
        assert_eq!((path.as_str(), url.as_str()), ("in/a/long", "memory:///in/a/long"));
        assert!(modified_ms.is_some());
        assert!(page.skipped.is_empty());
    }
}

#[tokio::test]
async fn globs_choose_objects_by_paths_below_the_prefix() {
    let store = Arc::new(InMemory::new());
    let names = ["a.jpg", "b.txt", "in/c.jpg", "raw/x/d.jpg", "raw/e.png"];
    fill(store.as_ref(), &sized(&names)).await;
    for order in [ListingOrder::Bytes, ListingOrder::Folders] {
        let found = async |include: &[&str], exclude: &[&str]| {
            let owned = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
            let objects = connector(store.clone(), order);
            let objects = objects.with_globs(&owned(include), &owned(exclude)).unwrap();
            conformance::check(&objects).await
        };
        assert_eq!(keys(&found(&["*.jpg"], &["/in"]).await), ["a.jpg", "raw/x/d.jpg"]);
        assert_eq!(keys(&found(&["raw/"], &[]).await), ["raw/e.png", "raw/x/d.jpg"]);
        assert_eq!(keys(&found(&[], &["*.jpg", "raw"]).await), ["b.txt"]);
    }
}

fn name() -> impl Strategy<Value = String> {
    let chosen =
        vec!["a", "a.", "a0", "a-", "a b", "b", "é", "~", "Z", "a\u{10ffff}", "日本", "..."];
    prop_oneof![
        4 => proptest::sample::select(chosen).prop_map(str::to_owned),
        1 => "[ -.0-~]{1,6}".prop_filter("not a name", |name| name != "." && name != ".."),
    ]
}

fn objects() -> impl Strategy<Value = BTreeMap<String, usize>> {
    let path = proptest::collection::vec(name(), 1..4).prop_map(|names| names.join("/"));
    proptest::collection::btree_map(path, 0_usize..500, 0..40)
}

fn check_all<F: Future<Output = (Vec<Item>, BTreeMap<String, usize>)>>(
    cases: u32,
    check: impl Fn(BTreeMap<String, usize>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut runner = TestRunner::new(Config::with_cases(cases));
    let outcome = runner.run(&objects(), |objects| {
        let (items, expected) = runtime.block_on(check(objects));
        let found: Vec<(String, usize)> = items
            .iter()
            .map(|item| {
                (keys(std::slice::from_ref(item))[0].to_owned(), item.size.unwrap() as usize)
            })
            .collect();
        prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn stores_that_list_in_byte_order_conform() {
    check_all(24, |objects| async {
        let store = Arc::new(InMemory::new());
        fill(store.as_ref(), &objects).await;
        let found = conformance::check(&connector(store, ListingOrder::Bytes)).await;
        (found, objects)
    });
}

#[test]
fn stores_that_are_listed_folder_by_folder_conform() {
    check_all(24, |objects| async {
        let store = Arc::new(InMemory::new());
        fill(store.as_ref(), &objects).await;
        let found = conformance::check(&connector(store, ListingOrder::Folders)).await;
        (found, objects)
    });
}

#[test]
fn local_folders_conform() {
    check_all(8, |objects| async {
        let folder = TempDir::new().unwrap();
        let store = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        // A file prevents a folder of the same name, and some characters are special.
        let mut planted = BTreeMap::new();
        for (key, size) in objects.into_iter().filter(|(key, _)| !key.contains(['#', '%', '\\'])) {
            let path = Path::parse(format!("in/{key}")).unwrap();
            if store.put(&path, vec![b'x'; size].into()).await.is_ok() {
                planted.insert(key, size);
            }
        }
        std::fs::create_dir_all(folder.path().join("in/empty")).unwrap();
        let url = url::Url::from_file_path(folder.path().join("in")).unwrap();
        let opened = ObjectConnector::open(url.as_str()).await.unwrap();
        (conformance::check(&opened).await, planted)
    });
}

fn many(count: usize) -> BTreeMap<String, usize> {
    (0..count).map(|at| (format!("part-{:02}/{at:05}", at * 10 / count), 1)).collect()
}

#[tokio::test]
async fn a_large_store_is_split_near_the_fraction() {
    let store = Arc::new(InMemory::new());
    fill(store.as_ref(), &many(5_000)).await;
    for order in [ListingOrder::Bytes, ListingOrder::Folders] {
        let objects = connector(store.clone(), order);
        let all = everything(&objects).await.items;
        let whole = ObjectConnector::whole_range();
        let estimate = objects.estimate(&whole, None).await.unwrap();
        assert_eq!(estimate.items, Quantity::AtLeast(1_000));
        let cut = objects.propose_split(&whole, None, 0.5).await.unwrap().unwrap();
        let before = all.iter().filter(|item| item.key.as_ref() < cut.as_slice()).count();
        assert!((1_500..=3_500).contains(&before), "{order:?}: {before}");
        let ranges = objects.initial_ranges(8).await.unwrap();
        assert!(ranges.len() > 4, "{order:?}: {}", ranges.len());
        for range in ranges {
            let inside = all.iter().filter(|item| range.contains(&item.key)).count();
            assert!((1..2_500).contains(&inside), "{order:?}: {inside}");
        }
    }
}

#[tokio::test]
async fn a_page_costs_one_listing_from_its_position() {
    let objects = (0..1_000).map(|at| (format!("in/{at:04}"), 1)).collect();
    let server = ListingServer::start(objects).await;
    let objects = ObjectConnector::open_with("s3://bucket/in", server.settings()).await.unwrap();
    let whole = ObjectConnector::whole_range();
    let position = Position::after("0899");
    let page = objects.page(&whole, &position, PageLimit::items(50)).await.unwrap();
    assert_eq!((keys(&page.items)[0], page.items.len()), ("0900", 50));
    assert_eq!(server.listings(), 1);
    let rest = objects.page(&whole, &page.next_position().unwrap(), PageLimit::items(100)).await;
    assert_eq!(rest.unwrap().items.len(), 50);
    assert_eq!(server.listings(), 1, "the listing is continued, not repeated");
}

#[tokio::test]
async fn placeholders_of_folders_are_not_items() {
    let mut objects: BTreeMap<String, usize> =
        ["in/a-", "in/a.txt", "in/a/x", "in/c/y", "in/d"].map(|key| (key.to_owned(), 1)).into();
    for marker in ["in/", "in/a/", "in/b/", "in/c/"] {
        objects.insert(marker.to_owned(), 0);
    }
    objects.insert("in/empty".to_owned(), 0);
    let server = ListingServer::start(objects).await;
    let objects = ObjectConnector::open_with("s3://bucket/in", server.settings()).await.unwrap();
    let page = everything(&objects).await;
    assert_eq!(keys(&page.items), ["a-", "a.txt", "a/x", "c/y", "d", "empty"]);
    let markers: Vec<&[u8]> =
        page.skipped.kept().iter().map(|report| report.key.as_ref()).collect();
    assert!(page.skipped.kept().iter().all(|report| report.reason == SkipReason::FolderMarker));
    assert_eq!(markers, [b"a", b"b", b"c"]);
    assert_eq!(conformance::check(&objects).await, page.items);
}

#[tokio::test]
async fn an_unreachable_server_is_a_transient_error() {
    let settings = [
        ("aws_endpoint", "http://127.0.0.1:9"),
        ("aws_allow_http", "true"),
        ("aws_skip_signature", "true"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let objects = ObjectConnector::open_with("s3://bucket/in", settings).await.unwrap();
    let whole = ObjectConnector::whole_range();
    let failed = objects.page(&whole, &Position::start(), PageLimit::default()).await;
    let Err(error @ ConnectorError::ObjectStore { .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(error.is_transient());
}

#[tokio::test]
async fn the_fingerprint_is_the_url() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let objects = connector(store, ListingOrder::Bytes);
    let fingerprint = objects.fingerprint().await.unwrap();
    assert_eq!(fingerprint.identity, "objects memory:///in");
    assert!(fingerprint.listed_at_ms.is_some());
}
