use std::path::Path;

use super::*;
use crate::tidy::module_tree::walk;
use crate::tidy::sources::Sources;

/// What `path` means in `module` of a crate that consists of `text`.
fn meanings(text: &str, module: &str, path: &str) -> Vec<String> {
    let sources = Sources::from_texts(&[("lib.rs", text)]);
    let tree = walk(&sources, Path::new("lib.rs"), false);
    let split = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    let names = Names::collect(&tree.modules);
    let found = names.resolve(&split(module), &split(path), false);
    found.iter().map(|segments| segments.join("::")).collect()
}

#[test]
fn imports_and_renames_are_followed() {
    let text = "use std::time::Instant as I; use std as s; use core::hash;";
    assert_eq!(meanings(text, "crate", "I::now"), ["std::time::Instant::now"]);
    assert_eq!(meanings(text, "crate", "s::fs::read"), ["std::fs::read"]);
    assert_eq!(meanings(text, "crate", "hash::RandomState"), ["std::hash::RandomState"]);
    assert_eq!(meanings(text, "crate", "alloc::vec::Vec"), ["std::vec::Vec"]);
}

#[test]
fn a_chain_of_renames_is_followed_to_its_end() {
    let text = "use std::time as a; use a::Instant as b; type C = b;";
    assert_eq!(meanings(text, "crate", "C::now"), ["std::time::Instant::now"]);
}

#[test]
fn other_modules_are_looked_into() {
    let text = "mod a { use std::time; pub mod b { use super::*; } } mod c { use crate::a; }";
    assert_eq!(meanings(text, "crate::c", "a::time::Instant"), ["std::time::Instant"]);
    assert_eq!(meanings(text, "crate::a::b", "super::time::Instant"), ["std::time::Instant"]);
    let found = meanings(text, "crate::a::b", "time::Instant");
    assert!(found.contains(&"std::time::Instant".to_owned()), "{found:?}");
}

#[test]
fn a_local_module_hides_a_crate_of_the_same_name() {
    assert!(meanings("mod log { pub fn add() {} }", "crate", "log::add").is_empty());
    assert_eq!(meanings("", "crate", "log::add"), ["log::add"]);
    let text = "mod a { pub mod log {} } mod b { use crate::a::log; }";
    assert!(meanings(text, "crate::b", "log::add").is_empty());
}

#[test]
fn an_import_of_a_crate_by_its_own_name_ends() {
    assert_eq!(meanings("use tokio;", "crate", "tokio::spawn"), ["tokio::spawn"]);
    assert!(meanings("use self::a as b; use self::b as a;", "crate", "a::x").is_empty());
}

#[test]
fn globs_that_lead_to_themselves_end() {
    let found = meanings("enum Kind { A } use Kind::*;", "crate", "A");
    assert!(found.contains(&"A".to_owned()), "{found:?}");
}

#[test]
fn names_that_only_tests_import_mean_nothing_elsewhere() {
    let text = "#[cfg(test)] use std::time::Instant;";
    assert_eq!(meanings(text, "crate", "Instant::now"), ["Instant::now"]);
}
