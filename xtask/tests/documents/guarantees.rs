//! Each row of `docs/guarantees.md` names tests, and each of these tests exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::root;

#[path = "../../src/test_names.rs"]
mod test_names;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The claim and the tests of each row of the page's tables.
fn proofs(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let proof = |cells: Vec<&str>| match cells.as_slice() {
        ["", _, "what holds", "test", ""] | ["", "---", "---", "---", ""] => None,
        ["", _, claim, proof, ""] => Some(((*claim).to_owned(), (*proof).to_owned())),
        other => Some((format!("a row that is not understood: {other:?}"), String::new())),
    };
    cells.filter_map(proof).collect()
}

/// The texts between marks.
fn marked<'t>(text: &'t str, mark: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(mark).skip(1).step_by(2)
}

#[test]
fn every_row_names_tests_that_exist() {
    let (page, tests) = (read("docs/guarantees.md"), test_names::below(root()));
    let proofs = proofs(&page);
    assert!(proofs.len() > 20, "the page was not understood: {proofs:?}");
    for (claim, proof) in proofs {
        assert!(marked(&proof, "`").next().is_some(), "no test proves: {claim}");
        let missing: Vec<&str> =
            marked(&proof, "`").filter(|name| !tests.contains(*name)).collect();
        assert!(missing.is_empty(), "there is no test called {missing:?}");
    }
}

#[test]
fn every_named_fault_exists() {
    let faults = read("crates/chaos/src/nemesis.rs") + &read("crates/sim/src/runtime/fault.rs");
    let mut named = 0;
    for (_, proof) in proofs(&read("docs/guarantees.md")) {
        for fault in marked(&proof, "*") {
            assert!(faults.contains(&format!("\"{fault}\"")), "there is no fault called {fault}");
            named += 1;
        }
    }
    assert!(named > 10, "the page was not understood");
}

// `cargo xtask test` runs every test and chaos until each fault has come once; `cargo xtask prove`
// adds quantity, never a kind. So whatever the simulator and chaos can do must occur in a test.

/// The texts of all Rust files below a folder, by path.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

/// The words right after a prefix.
fn words_after<'t>(text: &'t str, beginning: &'t str) -> impl Iterator<Item = &'t str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(beginning)
        .skip(1)
        .map(move |rest| rest.split(|letter| !is_part(letter)).next().unwrap_or_default())
}

#[test]
fn every_kind_of_world_is_swept_by_a_test() {
    let tests = sources("crates/sim/tests");
    let simulator = sources("crates/sim/src");
    let product = simulator.iter().map(|(_, text)| text.split("#[cfg(test)]").next().unwrap());
    let worlds: Vec<&str> = product.flat_map(|text| words_after(text, "impl World for ")).collect();
    assert!(worlds.len() >= 4, "the simulator was not understood: {worlds:?}");
    for world in worlds {
        // Its complaints are all findings, and every fault and outcome that never occurred.
        let judged = |text: &str| {
            text.contains(&format!("Sweep::<{world}>::run")) && text.contains(".complaints()")
        };
        assert!(tests.iter().any(|(_, text)| judged(text)), "no test sweeps {world}");
    }
}

#[test]
fn every_list_of_oracles_is_used_by_a_test() {
    let tests: String = sources("crates/sim/tests").into_iter().map(|(_, text)| text).collect();
    let lists = sources("crates/sim/src");
    let lists = lists.iter().filter(|(_, text)| text.contains("pub const ALL: &[&Oracle]"));
    let modules: Vec<&str> =
        lists.map(|(path, _)| path.file_stem().unwrap().to_str().unwrap()).collect();
    assert!(modules.len() >= 3, "the simulator was not understood: {modules:?}");
    for module in &modules {
        let lists = modules.iter().filter(|other| *other == module).count();
        let uses = tests.matches(&format!("{module}::ALL")).count();
        assert!(uses >= lists, "{lists} lists of oracles in {module}, tests use {uses}");
    }
}

#[test]
fn every_kind_of_planted_bug_is_searched_by_a_test() {
    let tests: String = sources("crates/sim/tests").into_iter().map(|(_, text)| text).collect();
    let simulator = sources("crates/sim/src");
    // A table of bugs begins with its kind: `ProtocolBug, within 300 seeds, …`.
    let lines = simulator.iter().flat_map(|(_, text)| text.lines());
    let heads = lines.filter_map(|line| line.trim().split_once(", within "));
    let kinds: BTreeSet<&str> =
        heads.map(|(kind, _)| kind).filter(|kind| kind.ends_with("Bug")).collect();
    assert!(kinds.len() >= 4, "the simulator was not understood: {kinds:?}");
    for kind in kinds {
        assert!(tests.contains(&format!("::<{kind}>")), "no test searches for {kind}");
    }
}

#[test]
fn every_fault_of_chaos_is_in_a_deck() {
    let text = read("crates/chaos/src/nemesis.rs");
    let variants = text.split("pub enum Fault {").nth(1).unwrap().split("\n}").next().unwrap();
    let variants = variants.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let variants: BTreeSet<&str> =
        variants.map(|line| line.trim_end_matches(',')).filter(|line| !line.is_empty()).collect();
    assert_eq!(variants.len(), 16, "chaos was not understood: {variants:?}");
    let decks = text.split("pub const OF_").skip(1).map(|deck| deck.split(';').next().unwrap());
    let decks: BTreeSet<&str> = decks.flat_map(|deck| words_after(deck, "Self::")).collect();
    assert_eq!(variants, decks);
}
