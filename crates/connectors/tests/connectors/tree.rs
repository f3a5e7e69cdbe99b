//! Files of trees, beside links, special files and unreadable folders.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shardwright_connectors::{GivenPath, TreeConnector, TreeOptions};
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, PageLimit, Payload, Position, Quantity, SkipReason,
    SkipReport, conformance,
};
use tempfile::TempDir;

use crate::support::read_whole;

fn below(root: &Path, key: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(key))
}

fn write(root: &Path, key: &[u8], bytes: usize) {
    let path = below(root, key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![b'x'; bytes]).unwrap();
}

async fn open(root: &Path) -> TreeConnector {
    TreeConnector::open(root).await.unwrap()
}

async fn everything(tree: &TreeConnector) -> (Vec<Item>, Vec<SkipReport>) {
    let page = read_whole(tree, &TreeConnector::whole_range()).await;
    (page.items, page.skipped.kept().to_vec())
}

fn keys(items: &[Item]) -> Vec<&[u8]> {
    items.iter().map(|item| item.key.as_ref()).collect()
}

fn kinds(skipped: &[SkipReport]) -> Vec<(&[u8], SkipReason)> {
    skipped.iter().map(|report| (report.key.as_ref(), report.reason)).collect()
}

#[tokio::test]
async fn files_come_in_the_byte_order_of_their_whole_paths() {
    let folder = TempDir::new().unwrap();
    let names: [&[u8]; 9] =
        [b"a/b", b"a.txt", b"a0", b"a/b.c/d", b"a/b0", b"a b", b".x", b"\xff\xfe", b"n\nl"];
    for (at, name) in names.iter().enumerate() {
        write(folder.path(), name, at);
    }
    fs::create_dir(folder.path().join("empty")).unwrap();
    // `a/b` is a file, so what would be below it lies in `a/b.c`.
    let tree = open(folder.path()).await;
    let (items, skipped) = everything(&tree).await;
    let expected: [&[u8]; 9] =
        [b".x", b"a b", b"a.txt", b"a/b", b"a/b.c/d", b"a/b0", b"a0", b"n\nl", b"\xff\xfe"];
    assert_eq!(keys(&items), expected);
    assert!(skipped.is_empty());
    assert_eq!(items[4].size, Some(3));
    assert_eq!(items[4].payload, Payload::File(folder.path().join("a/b.c/d")));
}

#[tokio::test]
async fn links_and_special_files_are_reported_as_skipped() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    write(root, b"real/file", 1);
    symlink("real", root.join("to-folder")).unwrap();
    symlink("real/file", root.join("to-file")).unwrap();
    symlink(".", root.join("real/loop")).unwrap();
    symlink("nowhere", root.join("broken")).unwrap();
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let (items, skipped) = everything(&open(root).await).await;
    assert_eq!(keys(&items), [b"real/file"]);
    let expected: [(&[u8], SkipReason); 5] = [
        (b"broken", SkipReason::Symlink),
        (b"real/loop", SkipReason::Symlink),
        (b"socket", SkipReason::Special),
        (b"to-file", SkipReason::Symlink),
        (b"to-folder", SkipReason::Symlink),
    ];
    assert_eq!(kinds(&skipped), expected);
}

#[tokio::test]
async fn the_root_may_be_a_link_and_keeps_its_name() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), b"real/file", 1);
    let link = folder.path().join("link");
    symlink("real", &link).unwrap();
    let (items, _) = everything(&open(&link).await).await;
    assert_eq!(items[0].payload, Payload::File(link.join("file")));
}

#[tokio::test]
async fn a_state_folder_is_skipped_under_any_name() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    write(root, b"data", 1);
    write(root, b".shardwright/store/db", 1);
    let state = root.join(".shardwright");
    fs::hard_link(state.join("store/db"), root.join("hard")).unwrap();
    let options = TreeOptions {
        state_folders: vec![state.clone(), state.join("store/db")],
        ..TreeOptions::default()
    };
    let tree = TreeConnector::open_with(root, options.clone()).await.unwrap();
    // Under another name it is the same folder.
    fs::rename(&state, root.join("renamed")).unwrap();
    let (items, skipped) = everything(&tree).await;
    assert_eq!(keys(&items), [b"data"]);
    let expected: [(&[u8], SkipReason); 2] =
        [(b"hard", SkipReason::State), (b"renamed/", SkipReason::State)];
    assert_eq!(kinds(&skipped), expected);
    // It cannot be a tree itself.
    fs::rename(root.join("renamed"), &state).unwrap();
    for inside in [state.clone(), state.join("store")] {
        let opened = TreeConnector::open_with(inside, options.clone()).await;
        assert!(matches!(opened, Err(ConnectorError::StateFolder { .. })));
    }
}

#[tokio::test]
async fn entries_that_vanish_between_pages_are_reported() {
    let folder = TempDir::new().unwrap();
    for name in ["a", "b", "c", "d/x", "e"] {
        write(folder.path(), name.as_bytes(), 1);
    }
    let tree = open(folder.path()).await;
    let whole = TreeConnector::whole_range();
    let first = tree.page(&whole, &Position::start(), PageLimit::items(1)).await.unwrap();
    assert_eq!(keys(&first.items), [b"a"]);
    fs::remove_file(folder.path().join("b")).unwrap();
    fs::remove_dir_all(folder.path().join("d")).unwrap();
    let position = first.next_position().unwrap();
    let rest = tree.page(&whole, &position, PageLimit::default()).await.unwrap();
    assert_eq!(keys(&rest.items), [b"c", b"e"]);
    let expected: [(&[u8], SkipReason); 2] =
        [(b"b", SkipReason::Vanished), (b"d/", SkipReason::Vanished)];
    assert_eq!(kinds(rest.skipped.kept()), expected);
}

#[tokio::test]
async fn an_unreadable_folder_is_reported_and_a_missing_root_fails() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    write(root, b"closed/x", 1);
    write(root, b"open", 1);
    let closed = root.join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    // The superuser may read everything.
    if fs::read_dir(&closed).is_err() {
        let (items, skipped) = everything(&open(root).await).await;
        assert_eq!(keys(&items), [b"open"]);
        assert_eq!(kinds(&skipped), [(&b"closed/"[..], SkipReason::Unreadable)]);
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let tree = open(&closed).await;
    fs::remove_dir_all(&closed).unwrap();
    let whole = TreeConnector::whole_range();
    let gone = tree.page(&whole, &Position::start(), PageLimit::default()).await;
    assert!(matches!(gone, Err(ConnectorError::Io { doing: "list", .. })), "{gone:?}");
    assert!(matches!(
        TreeConnector::open(root.join("open")).await,
        Err(ConnectorError::NotAFolder { .. })
    ));
}

#[tokio::test]
async fn a_path_too_long_for_a_key_is_reported() {
    let folder = TempDir::new().unwrap();
    // The path is too long for a single call.
    let name = "n".repeat(250);
    let mut at = rustix::fs::openat(
        rustix::fs::CWD,
        folder.path(),
        rustix::fs::OFlags::DIRECTORY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..18 {
        rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    write(folder.path(), b"z", 1);
    let (items, skipped) = everything(&open(folder.path()).await).await;
    assert_eq!(keys(&items), [b"z"]);
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0].reason, SkipReason::TooLong);
    assert!(skipped[0].key.starts_with(name.as_bytes()) && skipped[0].key.len() > 3_500);
}

#[tokio::test]
async fn ignore_rules_are_respected_on_request_only() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    for name in [".git/HEAD", "a.log", "keep.log", "src/b.log", "src/target/x", "top", "src/c"] {
        write(root, name.as_bytes(), 1);
    }
    fs::write(root.join(".gitignore"), "*.log\n!keep.log\ntarget/\n/top\n").unwrap();
    fs::write(root.join("src/.gitignore"), "!b.log\nc\n").unwrap();
    let options = TreeOptions { respect_gitignore: true, ..TreeOptions::default() };
    let tree = TreeConnector::open_with(root, options.clone()).await.unwrap();
    let (items, _) = everything(&tree).await;
    let expected: [&[u8]; 4] = [b".gitignore", b"keep.log", b"src/.gitignore", b"src/b.log"];
    assert_eq!(keys(&items), expected);
    let whole = TreeConnector::whole_range();
    let estimate = tree.estimate(&whole, None).await.unwrap();
    assert_eq!(estimate.items, Quantity::Exact(4));
    // Rules from above the root apply as well.
    let (items, _) =
        everything(&TreeConnector::open_with(root.join("src"), options).await.unwrap()).await;
    assert_eq!(keys(&items), [&b".gitignore"[..], b"b.log"]);
    let (items, _) = everything(&open(root).await).await;
    assert_eq!(items.len(), 9);
}

fn globs(globs: &[&str]) -> Vec<String> {
    globs.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn globs_choose_files_and_prune_folders() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    for name in ["a.jpg", "b.txt", "raw/c.jpg", "raw/x/d.jpg", "src/raw.jpg", "src/e.png"] {
        write(root, name.as_bytes(), 1);
    }
    symlink("a.jpg", root.join("link.txt")).unwrap();
    let found = async |include: &[&str], exclude: &[&str]| {
        let (include, exclude) = (globs(include), globs(exclude));
        let options = TreeOptions { include, exclude, ..TreeOptions::default() };
        let tree = TreeConnector::open_with(root, options).await.unwrap();
        let items = conformance::check(&tree).await;
        let (_, skipped) = everything(&tree).await;
        let keys: Vec<String> =
            items.iter().map(|item| String::from_utf8_lossy(&item.key).into_owned()).collect();
        (keys, skipped.len())
    };
    let (keys, skipped) = found(&["*.jpg"], &["/raw/x"]).await;
    assert_eq!((keys, skipped), (globs(&["a.jpg", "raw/c.jpg", "src/raw.jpg"]), 0));
    let (keys, skipped) = found(&["raw", "*.txt"], &[]).await;
    assert_eq!((keys, skipped), (globs(&["b.txt", "raw/c.jpg", "raw/x/d.jpg"]), 1));
    let (keys, skipped) = found(&[], &["*.jpg", "src/"]).await;
    assert_eq!((keys, skipped), (globs(&["b.txt"]), 1));
    assert!(found(&["*.gif"], &[]).await.0.is_empty());
}

#[tokio::test]
async fn a_bad_glob_is_an_error_of_opening() {
    let folder = TempDir::new().unwrap();
    let options = TreeOptions { exclude: globs(&["[a"]), ..TreeOptions::default() };
    let opened = TreeConnector::open_with(folder.path(), options).await;
    assert!(matches!(opened, Err(ConnectorError::BadGlob { .. })));
}

#[tokio::test]
async fn followed_links_are_items_and_loops_are_reported() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    write(root, b"real/deep/file", 3);
    write(root, b"real.txt", 1);
    symlink("real", root.join("to-folder")).unwrap();
    symlink("real.txt", root.join("to-file")).unwrap();
    symlink("..", root.join("real/up")).unwrap();
    symlink("itself", root.join("itself")).unwrap();
    symlink("nowhere", root.join("broken")).unwrap();
    symlink("/dev/null", root.join("device")).unwrap();
    let options = TreeOptions { follow_links: true, ..TreeOptions::default() };
    let tree = TreeConnector::open_with(root, options).await.unwrap();
    let (items, skipped) = everything(&tree).await;
    let expected: [&[u8]; 4] = [b"real.txt", b"real/deep/file", b"to-file", b"to-folder/deep/file"];
    assert_eq!(keys(&items), expected);
    assert_eq!(items[3].payload, Payload::File(root.join("to-folder/deep/file")));
    assert_eq!(items[3].size, Some(3));
    let expected: [(&[u8], SkipReason); 5] = [
        (b"broken", SkipReason::Symlink),
        (b"device", SkipReason::Special),
        (b"itself", SkipReason::Loop),
        (b"real/up/", SkipReason::Loop),
        (b"to-folder/up/", SkipReason::Loop),
    ];
    assert_eq!(kinds(&skipped), expected);
    assert_eq!(conformance::check(&tree).await.len(), 4);
    let whole = TreeConnector::whole_range();
    let estimate = tree.estimate(&whole, None).await.unwrap();
    assert_eq!(estimate.items, Quantity::Exact(4));
}

/// Paths as a command line gives them, from `root`.
fn given(root: &Path, names: &[&str]) -> Vec<GivenPath> {
    let named = names.iter().map(|name| GivenPath {
        path: root.join(name),
        is_folder: root.join(name).is_dir(),
        shown: PathBuf::from("shown").join(name),
    });
    named.collect()
}

#[tokio::test]
async fn several_paths_are_one_tree() {
    let folder = TempDir::new().unwrap();
    let root = &folder.path().canonicalize().unwrap();
    for name in ["a/1.txt", "a/sub/2.log", "b.txt", "c/x/3.log", "c/x/4.txt", "c/y", "other/5"] {
        write(root, name.as_bytes(), 1);
    }
    symlink("other", root.join("link")).unwrap();
    let paths = given(root, &["c/x", "link", "b.txt", "a", "a/sub", "a/1.txt", "a"]);
    let tree = TreeConnector::open_paths(paths.clone(), TreeOptions::default()).await.unwrap();
    let items = conformance::check(&tree).await;
    let expected: [&[u8]; 6] =
        [b"a/1.txt", b"a/sub/2.log", b"b.txt", b"c/x/3.log", b"c/x/4.txt", b"link/5"];
    assert_eq!(keys(&items), expected);
    let shown: Vec<&Payload> = items.iter().map(|item| &item.payload).collect();
    assert_eq!(*shown[1], Payload::File("shown/a/sub/2.log".into()));
    assert_eq!(*shown[2], Payload::File("shown/b.txt".into()));
    // Globs are compared with paths below each given folder, and leave no given path out.
    let options = TreeOptions { include: globs(&["/*.log"]), ..TreeOptions::default() };
    let filtered = TreeConnector::open_paths(paths.clone(), options).await.unwrap();
    let (items, _) = everything(&filtered).await;
    assert_eq!(keys(&items), [&b"b.txt"[..], b"c/x/3.log"]);
    // The order does not matter, and the set does.
    let identity = async |names: &[&str]| {
        let tree = TreeConnector::open_paths(given(root, names), TreeOptions::default()).await;
        tree.unwrap().fingerprint().await.unwrap().identity
    };
    assert_eq!(identity(&["b.txt", "a"]).await, identity(&["a", "b.txt", "a/sub"]).await);
    assert_ne!(identity(&["b.txt", "a"]).await, identity(&["b.txt", "c"]).await);
}

#[tokio::test]
async fn a_given_path_that_vanished_has_no_items() {
    let folder = TempDir::new().unwrap();
    let root = &folder.path().canonicalize().unwrap();
    for name in ["a/1", "b", "c"] {
        write(root, name.as_bytes(), 1);
    }
    let paths = given(root, &["a", "b", "c"]);
    fs::remove_dir_all(root.join("a")).unwrap();
    fs::remove_file(root.join("b")).unwrap();
    let tree = TreeConnector::open_paths(paths, TreeOptions::default()).await.unwrap();
    let (items, skipped) = everything(&tree).await;
    assert_eq!(keys(&items), [b"c"]);
    let expected: [(&[u8], SkipReason); 2] =
        [(b"a/", SkipReason::Vanished), (b"b", SkipReason::Vanished)];
    assert_eq!(kinds(&skipped), expected);
}

#[tokio::test]
async fn rules_of_each_given_folder_are_respected() {
    let folder = TempDir::new().unwrap();
    let root = &folder.path().canonicalize().unwrap();
    for name in ["one/.git/HEAD", "one/src/a.log", "one/src/b", "two/a.log", "two/.gitignore"] {
        write(root, name.as_bytes(), 1);
    }
    fs::write(root.join("one/.gitignore"), "*.log\n").unwrap();
    let options = TreeOptions { respect_gitignore: true, ..TreeOptions::default() };
    let paths = given(root, &["one/src", "two"]);
    let tree = TreeConnector::open_paths(paths, options).await.unwrap();
    let (items, _) = everything(&tree).await;
    assert_eq!(keys(&items), [&b"one/src/b"[..], b"two/.gitignore", b"two/a.log"]);
    let whole = TreeConnector::whole_range();
    let estimate = tree.estimate(&whole, None).await.unwrap();
    assert_eq!(estimate.items, Quantity::Exact(3));
}

#[tokio::test]
async fn rules_of_given_folders_are_bounded_and_reported() {
    let folder = TempDir::new().unwrap();
    let root = &folder.path().canonicalize().unwrap();
    for name in ["one/.git/HEAD", "one/src/a.log", "one/src/in/b.log", "two"] {
        write(root, name.as_bytes(), 1);
    }
    // Together too large, each alone not. The rules from above are counted apart.
    let half = |line: &str| format!("{line}\n{}", format!("{}\n", "*?".repeat(400)).repeat(14));
    for name in ["one/.gitignore", "one/src/.gitignore"] {
        fs::write(root.join(name), half("b.log")).unwrap();
    }
    fs::write(root.join("one/src/in/.gitignore"), half("!b.log")).unwrap();
    let options = TreeOptions { respect_gitignore: true, ..TreeOptions::default() };
    let rules = [&b"one/src/.gitignore"[..], b"one/src/a.log", b"one/src/in/.gitignore", b"two"];
    let paths = given(root, &["one/src", "two"]);
    let tree = TreeConnector::open_paths(paths.clone(), options.clone()).await.unwrap();
    let (items, skipped) = everything(&tree).await;
    assert_eq!(keys(&items), rules);
    assert_eq!(kinds(&skipped), [(&b"one/src/in/.gitignore"[..], SkipReason::Unreadable)]);
    // A report from above a given folder has the file's path in the tree.
    fs::write(root.join("one/.gitignore"), "*.log\n".repeat(200_000)).unwrap();
    fs::write(root.join("one/src/in/.gitignore"), "").unwrap();
    let (items, skipped) =
        everything(&TreeConnector::open_paths(paths, options).await.unwrap()).await;
    assert_eq!(keys(&items), rules);
    assert_eq!(kinds(&skipped), [(&b"one/.gitignore"[..], SkipReason::Unreadable)]);
}

#[tokio::test]
async fn a_split_halves_bytes_not_files() {
    let folder = TempDir::new().unwrap();
    for at in 0..100 {
        write(folder.path(), format!("small/{at:03}").as_bytes(), 10);
    }
    write(folder.path(), b"large/one", 1_000_000);
    write(folder.path(), b"large/two", 1_000_000);
    let tree = open(folder.path()).await;
    let whole = TreeConnector::whole_range();
    let cut = tree.propose_split(&whole, None, 0.5).await.unwrap();
    assert_eq!(cut.as_deref(), Some(&b"large/two"[..]));
    let cut = tree.propose_split(&whole, Some(b"large/two"), 0.5).await.unwrap();
    assert_eq!(cut.as_deref(), Some(&b"small/050"[..]));
}

#[tokio::test]
async fn a_split_of_a_large_folder_leaves_files_on_both_sides() {
    let folder = TempDir::new().unwrap();
    for at in 0..9_000 {
        write(folder.path(), format!("flat/{at:05}").as_bytes(), 0);
    }
    fs::create_dir(folder.path().join("void")).unwrap();
    let tree = open(folder.path()).await;
    let whole = TreeConnector::whole_range();
    let cut = tree.propose_split(&whole, None, 0.5).await.unwrap().unwrap();
    assert!(cut > b"flat/04000".to_vec() && cut < b"flat/05000".to_vec(), "{cut:?}");
    let estimate = tree.estimate(&whole, None).await.unwrap();
    assert!(matches!(estimate.items, Quantity::About(8_900..=9_100)), "{estimate:?}");
    // A walk in the folder has counted it.
    let page = tree.page(&whole, &Position::start(), PageLimit::items(100)).await.unwrap();
    let after = page.next_position().unwrap().after;
    let estimate = tree.estimate(&whole, after.as_deref()).await.unwrap();
    assert_eq!(estimate.items, Quantity::About(8_901), "the rest, and a folder");
    assert_eq!(estimate.bytes, Quantity::About(0));
    let ranges = tree.initial_ranges(8).await.unwrap();
    assert_eq!(ranges.len(), 8);
}

#[tokio::test]
async fn unopened_folders_count_as_average_ones() {
    let folder = TempDir::new().unwrap();
    for at in 0..12_000 {
        write(
            folder.path(),
            format!("{:02}/{:02}/{at:05}", at / 1_200, at / 60 % 20).as_bytes(),
            3,
        );
    }
    let tree = open(folder.path()).await;
    let whole = TreeConnector::whole_range();
    let estimate = tree.estimate(&whole, None).await.unwrap();
    assert!(matches!(estimate.items, Quantity::About(11_500..=12_500)), "{estimate:?}");
    assert!(matches!(estimate.bytes, Quantity::About(34_500..=37_500)), "{estimate:?}");
    let cut = tree.propose_split(&whole, None, 0.5).await.unwrap().unwrap();
    assert!(cut > b"04/".to_vec() && cut < b"06/".to_vec(), "{cut:?}");
}

#[tokio::test]
async fn a_page_opens_only_folders_that_its_range_reaches() {
    let folder = TempDir::new().unwrap();
    for name in ["a/1", "b/1", "b/2", "c/1"] {
        write(folder.path(), name.as_bytes(), 1);
    }
    // A walk that reaches a state folder reports it.
    let state_folders = ["a", "c"].map(|name| folder.path().join(name)).to_vec();
    let options = TreeOptions { state_folders, ..TreeOptions::default() };
    let tree = TreeConnector::open_with(folder.path(), options).await.unwrap();
    assert_eq!(everything(&tree).await.1.len(), 2);
    let range = KeyRange::new("b/1", "b/3");
    let page = tree.page(&range, &Position::after("b/1"), PageLimit::default()).await.unwrap();
    assert_eq!(keys(&page.items), [b"b/2"]);
    assert!(page.skipped.is_empty(), "{:?}", page.skipped);
}

#[tokio::test]
async fn the_fingerprint_is_the_root_not_the_content() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("with space%");
    write(&root, b"x", 1);
    let before = open(&root).await.fingerprint().await.unwrap();
    write(&root, b"y", 1);
    let after = open(&root).await.fingerprint().await.unwrap();
    assert!(before.is_same_source(&after) && before.listed_at_ms.is_some());
    assert!(before.identity.ends_with("with%20space%25"), "{before}");
    let other = open(folder.path()).await.fingerprint().await.unwrap();
    assert!(!before.is_same_source(&other));
}

/// Names that sort differently as names, as paths and as text.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let chosen: Vec<&'static [u8]> = vec![
        b"a",
        b"a.",
        b"a0",
        b"a-",
        b"a b",
        b"b",
        b"\xff",
        b"\xff\xff",
        b"\xc3\xa9",
        b"\xc3",
        b"n\n",
        b"...",
        b".h",
        b"~",
        b"\x01",
        b"-",
    ];
    prop_oneof![
        4 => proptest::sample::select(chosen).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 1..6),
    ]
    .prop_filter("not a file name", |name| {
        !name.contains(&0) && !name.contains(&b'/') && name != b"." && name != b".."
    })
}

fn files() -> impl Strategy<Value = BTreeMap<Vec<Vec<u8>>, u16>> {
    let path = proptest::collection::vec(name(), 1..4);
    proptest::collection::btree_map(path, 0_u16..2_000, 0..40)
}

/// Writes the files, except where another file has the path of a folder. Returns what was written.
fn plant(root: &Path, files: &BTreeMap<Vec<Vec<u8>>, u16>) -> BTreeMap<Vec<u8>, u64> {
    let mut planted = BTreeMap::new();
    for (path, size) in files {
        let key = path.join(&b'/');
        let path = below(root, &key);
        if fs::create_dir_all(path.parent().unwrap()).is_ok()
            && fs::write(&path, vec![b'x'; usize::from(*size)]).is_ok()
        {
            planted.insert(key, u64::from(*size));
        }
    }
    planted
}

#[test]
fn trees_with_any_names_conform() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut runner = TestRunner::new(Config::with_cases(24));
    let outcome = runner.run(&files(), |files| {
        let folder = TempDir::new().unwrap();
        let planted = plant(folder.path(), &files);
        let items = runtime.block_on(async {
            let tree = open(folder.path()).await;
            conformance::check(&tree).await
        });
        let found: Vec<(Vec<u8>, u64)> =
            items.iter().map(|item| (item.key.to_vec(), item.size.unwrap())).collect();
        prop_assert_eq!(found, planted.into_iter().collect::<Vec<_>>());
        Ok(())
    });
    outcome.unwrap();
}

/// Keys of a tree that respects rules, and the skipped entries as text.
async fn by_rules(root: &Path) -> (Vec<Vec<u8>>, Vec<String>) {
    let options = TreeOptions { respect_gitignore: true, ..TreeOptions::default() };
    let tree = TreeConnector::open_with(root, options).await.unwrap();
    let (items, skipped) = everything(&tree).await;
    let shown = skipped.iter().map(|report| {
        let key = String::from_utf8_lossy(&report.key);
        format!("{key} {:?} {}", report.reason, report.detail.as_deref().unwrap_or_default())
    });
    (keys(&items).into_iter().map(<[u8]>::to_vec).collect(), shown.collect())
}

#[tokio::test]
async fn too_large_rules_are_reported_and_not_applied() {
    let refused = "Unreadable its rules do not apply, because it has";
    let with = |line: &str, times| format!("*.log\n{}", format!("{line}\n").repeat(times));
    let comments = with(&"#".repeat(1_023), 1_024);
    // Together too large, each alone not.
    let half = with(&"*?".repeat(400), 14);
    for (place, text, expected) in [
        ("", &comments, Some("more than 1 MiB")),
        ("", &comments[..1 << 20].to_owned(), None),
        ("", &with(&"{".repeat(1_025), 1), Some("a pattern of more than 1,024 bytes")),
        ("", &with(&"n".repeat(1_024), 1), None),
        ("", &with(&"?".repeat(1_000), 22), Some("too many patterns")),
        ("", &with("x", 31_000), Some("too many patterns")),
        ("a/", &half, Some("too many patterns")),
        ("", &half, None),
    ] {
        let folder = TempDir::new().unwrap();
        write(folder.path(), b"a/b.log", 1);
        if !place.is_empty() {
            fs::write(folder.path().join(".gitignore"), half.replace("*.log\n", "")).unwrap();
        }
        fs::write(folder.path().join(place).join(".gitignore"), text).unwrap();
        let (keys, skipped) = by_rules(folder.path()).await;
        let has_log = keys.iter().any(|key| key.ends_with(b".log"));
        assert_eq!(has_log, expected.is_some(), "{expected:?} {skipped:?}");
        let line = expected.map(|what| format!("{place}.gitignore {refused} {what}"));
        assert_eq!(skipped.len(), usize::from(line.is_some()), "{skipped:?}");
        assert!(line.is_none_or(|line| skipped[0].starts_with(&line)), "{skipped:?}");
    }
}

#[tokio::test]
async fn rules_above_are_read_in_a_repository_only() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("above/root");
    write(&root, b"b.log", 1);
    let above = folder.path().join("above/.gitignore");
    // Not a regular expression, because it is nested too deeply.
    fs::write(&above, format!("*.log\n{}{}", "{a,".repeat(300), "}".repeat(300))).unwrap();
    assert_eq!(by_rules(&root).await, (vec![b"b.log".to_vec()], vec![]));
    fs::create_dir(folder.path().join(".git")).unwrap();
    let (keys, skipped) = by_rules(&root).await;
    assert_eq!((keys.len(), skipped.len()), (1, 1));
    assert!(skipped[0].starts_with("../.gitignore Unreadable "), "{skipped:?}");
    fs::write(&above, "*.log\n").unwrap();
    assert_eq!(by_rules(&root).await, (vec![], vec![]));
}
