//! The walks of `ARCHITECTURE.md` lead through existing files and functions, and through each file
//! once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::root;

/// The headings of the walks.
const WALKS: [&str; 2] = ["## One checkpoint, file by file", "## One object call, file by file"];

/// One step: a file, and the functions or types to read there.
#[derive(Debug, PartialEq, Eq)]
struct Step<'t> {
    file: &'t str,
    names: Vec<&'t str>,
}

/// The steps below a heading. A step is a row of the table: number, file, names, what happens.
fn steps<'t>(page: &'t str, heading: &str) -> Vec<Step<'t>> {
    let (_, section) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading:?}"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let numbered =
        rows.filter(|cells| cells.get(1).is_some_and(|cell| cell.parse::<u32>().is_ok()));
    let step = |cells: Vec<&'t str>| {
        let marked = |cell: &'t str| cell.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        let [file] = marked(cells[2])[..] else { panic!("not one file: {cells:?}") };
        Step { file, names: marked(cells[3]) }
    };
    numbered.map(step).collect()
}

/// Whether a source defines a name. The name of a type may precede that of a method.
fn defines(source: &str, name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap();
    let is_end = |rest: &str| rest.starts_with(|next: char| !next.is_alphanumeric() && next != '_');
    ["fn ", "struct ", "enum ", "trait ", "macro_rules! "].iter().any(|kind| {
        source
            .match_indices(&format!("{kind}{name}"))
            .any(|(at, found)| is_end(&source[at + found.len()..]))
    })
}

#[test]
fn every_step_of_a_walk_names_a_file_and_its_items() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for heading in WALKS {
        let steps = steps(&page, heading);
        assert!(steps.len() >= 8, "{heading} was not understood: {steps:?}");
        for Step { file, names } in steps {
            let source = fs::read_to_string(root().join(file));
            let source = source.unwrap_or_else(|error| panic!("{heading}: {file}: {error}"));
            assert!(!names.is_empty(), "{heading}: nothing to look at in {file}");
            for name in names {
                assert!(defines(&source, name), "{heading}: there is no {name} in {file}");
            }
        }
    }
}

#[test]
fn no_walk_visits_a_file_twice() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for heading in WALKS {
        let mut seen = BTreeSet::new();
        for Step { file, .. } in steps(&page, heading) {
            assert!(seen.insert(file), "{heading} visits {file} twice");
        }
    }
}

/// The paths of all files and folders below a folder, folders with a slash at the end.
fn paths_below(folder: &Path) -> Vec<String> {
    let (mut paths, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let text = path.to_str().unwrap().to_owned();
            if path.is_dir() {
                paths.push(text + "/");
                folders.push(path);
            } else {
                paths.push(text);
            }
        }
    }
    paths
}

#[test]
fn every_file_in_the_section_of_a_crate_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let sections = page.split("\n### `").skip(1);
    let mut checked = 0;
    for section in sections {
        let (name, text) = section.split_once('`').unwrap();
        let text = text.split("\n## ").next().unwrap();
        let folders = [root().join("crates").join(name), root().join(name)];
        let folder = folders.into_iter().find(|folder| folder.is_dir());
        let paths = paths_below(&folder.unwrap_or_else(|| panic!("there is no crate {name}")));
        for file in text.split('`').skip(1).step_by(2) {
            if file.ends_with(".rs") || file.ends_with('/') {
                let end = format!("/{file}");
                assert!(paths.iter().any(|path| path.ends_with(&end)), "no {file} in {name}");
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "the page was not understood: {checked} files");
}

#[test]
fn a_step_with_a_missing_name_is_detected() {
    let page =
        "## A walk\n\n| 1 | `a.rs` | `one`, `Two::three` | text |\n\n## Next\n| 2 | `b.rs` | |\n";
    let expected = Step { file: "a.rs", names: vec!["one", "Two::three"] };
    assert_eq!(steps(page, "## A walk"), [expected]);
    assert!(defines("pub fn one<T>(", "one") && defines("fn three()", "Two::three"));
    assert!(!defines("fn one_more()", "one") && !defines("let one = 1;", "one"));
}
