use std::collections::BTreeMap;

use super::ensure;
use crate::oracle::{Finding, Oracle};

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "no work is repeated without a fault",
    "where nothing fails, the handler is called once for every item",
);

/// Judges how often the handler was called for each item.
pub(in crate::workers) fn judge(items: u64, tries: &BTreeMap<u64, u64>) -> Result<(), Finding> {
    let again: Vec<u64> = (0..items).filter(|item| tries.get(item) != Some(&1)).collect();
    ensure(ORACLE, again.is_empty(), || format!("not called once for {again:?}"))
}
