//! The books of the processes that worked on a run, line by line: JSON, each with a kind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// So many places that could not be read are named in a receipt.
const NAMED: usize = 1_000;

/// What all of them say together.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) passed_over: BTreeMap<String, u64>,
    pub(super) uncovered: Vec<Value>,
    pub(super) retries: u64,
    pub(super) replays: u64,
    pub(super) refused: u64,
}

/// Adds up the books, in the order of their names.
pub(super) fn read(books: &[Vec<u8>]) -> Books {
    let (mut all, mut known) = (Books::default(), BTreeSet::new());
    for line in books.iter().flat_map(|books| books.split(|byte| *byte == b'\n')) {
        // A line that is cut was never finished.
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        let told = |field| line.get(field).unwrap_or(&Value::Null);
        let count = told("count").as_u64().unwrap_or(1);
        let why = told("why").as_str().unwrap_or_default().to_owned();
        match told("kind").as_str() {
            Some("passed_over") => {
                if !known.insert((why.clone(), told("key").to_string())) {
                    continue;
                }
                if matches!(&*why, "unreadable" | "too_long") && all.uncovered.len() < NAMED {
                    let (key, detail) = (told("key"), told("detail"));
                    all.uncovered.push(json!({ "key": key, "why": why, "detail": detail }));
                }
                *all.passed_over.entry(why).or_default() += 1;
            }
            Some("uncounted") => *all.passed_over.entry(why).or_default() += count,
            Some("retried") => all.retries += count,
            Some("replayed") => all.replays += 1,
            Some("refused") => all.refused += 1,
            _ => {}
        }
    }
    all
}
