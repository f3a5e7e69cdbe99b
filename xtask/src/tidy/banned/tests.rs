use super::*;
use crate::tidy::ban_table;
use crate::tidy::module_tree::walk;
use crate::tidy::sources::Sources;

/// The violations in `lib.rs` of a crate, as `line: what`.
fn found(crate_name: &str, texts: &[(&str, &str)]) -> Vec<String> {
    let sources = Sources::from_texts(texts);
    let tree = walk(&sources, Path::new(texts[0].0), false);
    let profile = ban_table::profile(crate_name).unwrap();
    check(&tree, profile)
        .iter()
        .map(|violation| {
            let text = violation.to_string();
            text.split(" — ").next().unwrap().replace("lib.rs:", "")
        })
        .collect()
}

fn pure(text: &str) -> Vec<String> {
    found("contracts", &[("lib.rs", text)])
}

fn simulated(text: &str) -> Vec<String> {
    found("engine", &[("lib.rs", text)])
}

#[track_caller]
fn banned(found: &[String], line: usize, word: &str) {
    let start = format!("{line}: ");
    let hit = found.iter().any(|one| one.starts_with(&start) && one.contains(word));
    assert!(hit, "no violation on line {line} that mentions {word}: {found:?}");
}

#[test]
fn every_kind_of_effect_is_banned_in_a_pure_crate() {
    for (text, word) in [
        ("fn f() { std::time::Instant::now(); }", "std::time::Instant"),
        ("fn f(t: std::time::SystemTime) {}", "std::time::SystemTime"),
        ("fn f() { std::fs::read(\"x\"); }", "std::fs"),
        ("use std::net::TcpStream;", "std::net"),
        ("use std::io::Write;", "std::io"),
        ("fn f() { std::env::var(\"x\"); }", "std::env"),
        ("fn f() { std::process::exit(1); }", "std::process"),
        ("fn f() { rand::random::<u8>(); }", "rand"),
        ("use rand_chacha::ChaCha8Rng;", "rand_"),
        ("fn f() { getrandom::fill(&mut []); }", "getrandom"),
        ("use std::hash::RandomState;", "std::hash::RandomState"),
        ("use std::collections::hash_map::RandomState;", "std::collections::hash_map"),
        ("fn f() { std::thread::yield_now(); }", "std::thread"),
        ("fn f() { println!(\"x\"); }", "std::println!"),
        ("fn f() { eprintln!(\"x\"); }", "std::eprintln!"),
        ("fn f() { print!(\"x\"); eprint!(\"x\"); }", "std::eprint!"),
        ("fn f() { std::dbg!(1); }", "std::dbg!"),
        ("fn f() { log::info!(\"x\"); }", "log"),
        ("fn f() { tracing::info!(\"x\"); }", "tracing"),
        ("#[tracing::instrument] fn f() {}", "tracing"),
        ("fn f() { tokio::spawn(g()); }", "tokio"),
        ("use async_std::task;", "async_std"),
        ("use futures::executor::block_on;", "futures::executor"),
        ("struct S { m: std::collections::HashMap<u8, u8> }", "HashMap"),
        ("use std::collections::{BTreeMap, HashSet};", "HashSet"),
    ] {
        banned(&pure(text), 1, word);
    }
}

#[test]
fn harmless_neighbours_pass_in_a_pure_crate() {
    for text in [
        "use std::time::Duration; fn f(d: Duration) {}",
        "use std::time; fn f(d: time::Duration) {}",
        "use std::collections::{BTreeMap, BTreeSet, VecDeque};",
        "const V: &str = env!(\"CARGO_PKG_VERSION\");",
        "// std::fs::read\n/// std::net and println!\nfn f() { let s = \"std::fs\"; g(s); }",
        "fn f(log: u8, rand: u8) -> u8 { log + rand }",
        "fn f(log: u8) { assert!(log == 1); }",
        "mod log { pub fn add() {} } fn f() { log::add(); }",
        "struct Instant; impl Instant { fn now() {} } fn f() { Instant::now(); }",
        "fn f(clock: &dyn Clock) { clock.spawn(); clock.now(); }",
        "use std::fmt::Write; fn f(s: &mut String) { writeln!(s, \"x\"); }",
    ] {
        assert!(pure(text).is_empty(), "{text}: {:?}", pure(text));
    }
}

#[test]
fn no_spelling_of_an_import_hides_the_call() {
    for (text, line) in [
        ("use std::time::Instant as I;\nfn f() { I::now(); }", 2),
        ("use std::time;\nfn f() { time::Instant::now(); }", 2),
        ("use std as s;\nfn f() { s::fs::read(p); }", 2),
        ("use std::{self as s};\nfn f() { s::fs::read(p); }", 2),
        ("extern crate std as s;\nfn f() { s::fs::read(p); }", 2),
        ("extern crate tokio;", 1),
        ("use ::std::fs;", 1),
        ("fn f() { ::std::fs::read(p); }", 1),
        ("use core::net::IpAddr;", 1),
        ("use alloc::{vec::Vec, fs::{self}};", 1),
        ("use std::time::*;", 1),
        ("use std::collections::*;", 1),
        ("pub use std::time;", 1),
        ("fn f() {\n    use std::println as p;\n    p!(\"x\");\n}", 3),
        ("use std::time;\ntype T = time::Instant;", 2),
        ("fn f() {\n    fn g() { std::fs::read(p); }\n}", 2),
        ("use std::time;\nfn f() { <time::Instant>::now(); }", 2),
        ("mod a {\n    use std::time;\n    mod b { use super::time::Instant; }\n}", 3),
    ] {
        let found = pure(text);
        assert!(found.iter().any(|one| one.starts_with(&format!("{line}: "))), "{text}: {found:?}");
    }
}

#[test]
fn macro_arguments_and_definitions_are_looked_into() {
    banned(&pure("use std::time;\nfn f() { assert!(time::Instant::now() > x); }"), 2, "Instant");
    banned(&pure("fn f() { vec![g(std::fs::read(p))]; }"), 1, "std::fs");
    banned(&pure("macro_rules! m { () => { println!(\"x\") }; }"), 1, "println");
    banned(&pure("m! {\n    use std::{fmt, fs};\n}"), 2, "std::fs");
    banned(&pure("m! { use std::time::*; }"), 1, "std::time");
    assert!(pure("fn f() { assert!(a.spawn() != \"std::fs\"); }").is_empty());
}

#[test]
fn test_code_may_do_anything() {
    for text in [
        "#[cfg(test)]\nmod tests { use std::collections::HashMap; fn f() { println!(); } }",
        "#[cfg(test)]\nuse std::collections::HashMap;",
        "#[test]\nfn f() { std::fs::read(p); }",
        "struct S;\nimpl S { #[cfg(test)] fn f() { std::fs::read(p); } }",
        "fn f() { #[cfg(test)] println!(\"x\"); #[cfg(test)] let x = std::fs::read(p); }",
    ] {
        assert!(pure(text).is_empty(), "{text}: {:?}", pure(text));
    }
    banned(&pure("#[cfg(not(test))]\nuse std::fs;"), 2, "std::fs");
    banned(&pure("#[cfg(any(test, unix))]\nmod m { use std::fs; }"), 2, "std::fs");
}

#[test]
fn a_file_is_test_code_if_and_only_if_it_is_declared_so() {
    let file = ("a.rs", "use std::fs;");
    assert!(found("contracts", &[("lib.rs", "#[cfg(test)] mod a;"), file]).is_empty());
    let shipped = found("contracts", &[("lib.rs", "mod a;"), file]);
    assert_eq!(shipped, ["a.rs:1: std::fs"]);
}

#[test]
fn a_simulated_crate_reaches_the_world_only_through_its_arguments() {
    for (text, word) in [
        ("fn f() { tokio::spawn(g()); }", "tokio::spawn"),
        ("use tokio::time::sleep;", "tokio::time"),
        ("use tokio::{net::TcpStream, sync::Mutex};", "tokio::net"),
        ("use tokio::fs;", "tokio::fs"),
        ("use tokio::task::spawn_blocking;", "tokio::task"),
        ("fn f() { std::thread::sleep(d); }", "std::thread"),
        ("use std::time::Instant as I; fn f() { I::now(); }", "Instant::now"),
        ("type C = std::time::Instant; fn f() { C::now(); }", "Instant::now"),
        ("use std::time::Instant; fn f() { let now = <Instant>::now; }", "Instant::now"),
        ("fn f() { std::time::SystemTime::now(); }", "SystemTime::now"),
        ("use std::time::Instant; fn f() { g!(Instant::now()); }", "Instant::now"),
        ("use std::collections::HashMap;", "HashMap"),
        ("use tokio::*;", "tokio"),
        ("pub use tokio;", "re-export"),
        ("use std::net::TcpStream;", "std::net"),
        ("fn f() { rand::random::<u8>(); }", "rand::random"),
    ] {
        banned(&simulated(text), 1, word);
    }
}

#[test]
fn a_simulated_crate_may_hold_times_and_synchronize() {
    for text in [
        "use std::time::{Duration, Instant, SystemTime}; fn f(now: Instant, at: SystemTime) {}",
        "use tokio::sync::{Mutex, mpsc};",
        "use tokio; fn f() { tokio::sync::Notify::new(); }",
        "fn f(env: &dyn Env) { env.spawn(g()); env.now(); tracing::info!(\"x\"); }",
        "use std::collections::BTreeMap;",
    ] {
        assert!(simulated(text).is_empty(), "{text}: {:?}", simulated(text));
    }
}

#[test]
fn a_select_must_be_biased() {
    banned(&simulated("fn f() { tokio::select! { a = b => {} } }"), 1, "select");
    banned(&simulated("use tokio::select;\nfn f() { select! { a = b => {} } }"), 2, "select");
    banned(&simulated("use tokio::select as s;\nfn f() { s! { a = b => {} } }"), 2, "select");
    banned(&simulated("m! { tokio::select! { a = b => {} } }"), 1, "select");
    assert!(simulated("fn f() { tokio::select! { biased; a = b => {} } }").is_empty());
    assert!(simulated("use tokio::select;\nfn f() { select! { biased; a = b => {} } }").is_empty());
    assert!(simulated("m! { tokio::select! { biased; a = b => {} } }").is_empty());
}
