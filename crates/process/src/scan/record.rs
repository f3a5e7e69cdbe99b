//! The line that a scanned item leaves in the results.

use std::io;

use serde::{Deserialize, Serialize};
use shardwright_scan::FileReport;
use shardwright_worker::connector::Item;

use crate::record::{KeyText, to_line};

/// What was found in an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanRecord<'a> {
    /// Its key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// How many bytes the item stands for.
    #[serde(default)]
    pub bytes: u64,
    /// Which try it was, if not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What was found.
    #[serde(flatten)]
    pub report: FileReport,
}

impl<'a> ScanRecord<'a> {
    pub(super) fn new(item: &'a Item, attempt: u32, report: FileReport) -> Self {
        Self {
            key: KeyText::new(&item.key),
            bytes: item.size.unwrap_or_default(),
            attempt: (attempt > 1).then_some(attempt),
            report,
        }
    }

    pub(super) fn to_line(&self) -> io::Result<Vec<u8>> {
        to_line(self)
    }
}
