//! A new listing of the source, compared with the result file.

use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Split};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use shardwright_connectors::open_regular;
use shardwright_worker::connector::{
    Connector, Item, KeyRange, PageLimit, Payload, Position, SkipReports,
};

use super::results::Line;
use super::shards::{Ends, Stored};
use super::uncovered::{Admitted, Unread, changed_at_ms};
use super::{Findings, shards};
use crate::description::Description;
use crate::source::{AnyConnector, Source};

/// The keys of the result file, in order.
struct Keys {
    lines: Split<BufReader<File>>,
}

impl Keys {
    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        for line in self.lines.by_ref() {
            // Lines that are not results were reported before.
            if let Ok(line) = serde_json::from_slice::<Line>(&line?)
                && let Some(key) = line.key()
            {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// What a run claims to cover.
pub(super) struct Claim {
    /// Start and end of its first ranges.
    pub(super) whole: Ends,
    pub(super) missing: Missing,
    /// The unreadable entries that its receipt reports.
    pub(super) admitted: Admitted,
}

/// What a missing result means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// A violation.
    Fault,
    /// Expected, because cursors move at dispatch.
    Expected,
    /// The result may be on another machine.
    Elsewhere,
}

/// Lists the source again, and compares it with the results key by key.
pub(super) async fn compare(
    source: &AnyConnector,
    description: &Description,
    shards: &[Stored],
    results: &Path,
    claim: &Claim,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let identity = source.fingerprint().await?.identity;
    if identity != description.fingerprint {
        findings.add("the source is not the one of the run");
        return Ok(());
    }
    // All of the source, independent of the ranges of the run.
    let range = source.initial_ranges(1).await?;
    let (start, end) = shards::whole(&range, findings);
    if (&start, &end) != (&claim.whole.0, &claim.whole.1) {
        findings.add("the run does not cover the whole source");
    }
    let range = KeyRange { start, end };
    let mut keys = Keys { lines: BufReader::new(open_regular(results)?).split(b'\n') };
    let next = keys.next()?;
    let mut walk = Walk {
        description,
        shards,
        claim,
        findings,
        // The fingerprint of a file of rows is its content.
        may_change: !matches!(description.source, Source::Lines { .. }),
        keys,
        next,
        new: 0,
        gone: 0,
        missing: 0,
        unread: Unread::new(&claim.admitted),
    };
    let mut position = Position::start();
    let limit = PageLimit::default();
    loop {
        let page = match source.page(&range, &position, limit).await {
            // A part that failed during the run may still fail.
            Err(error) if error.is_transient() => {
                source.page(&range, &position, limit.skipping_failing_parts()).await?
            }
            page => page?,
        };
        walk.add_skipped(&page.skipped);
        for item in &page.items {
            walk.compare(item)?;
        }
        match page.next_position() {
            Some(next) if !page.ended => position = next,
            Some(_) | None => break,
        }
    }
    walk.drop_results_below(None)?;
    walk.report();
    Ok(())
}

/// The comparison of the source and the result file.
struct Walk<'a> {
    description: &'a Description,
    shards: &'a [Stored],
    claim: &'a Claim,
    findings: &'a mut Findings,
    may_change: bool,
    keys: Keys,
    /// The key of the next result.
    next: Option<Vec<u8>>,
    new: u64,
    gone: u64,
    missing: u64,
    unread: Unread<'a>,
}

impl Walk<'_> {
    /// Adds skipped entries that may contain items.
    fn add_skipped(&mut self, skipped: &SkipReports) {
        let Self { description, shards, claim, unread, .. } = self;
        // Another machine may have reported it in its own receipt.
        if claim.missing == Missing::Elsewhere {
            return;
        }
        unread.add(skipped, |key| {
            let changed_ms = changed_at_ms(description, key);
            is_parked(shards, key) || changed_ms.is_some_and(|at| is_after(description, at))
        });
    }

    /// Compares an item with the next result.
    fn compare(&mut self, item: &Item) -> anyhow::Result<()> {
        self.drop_results_below(Some(&item.key))?;
        if self.next.as_deref() == Some(item.key.as_ref()) {
            self.next = self.keys.next()?;
            return Ok(());
        }
        if is_parked(self.shards, &item.key) {
            return Ok(());
        }
        match self.claim.missing {
            _ if self.may_change && is_newer(self.description, item) => self.new += 1,
            Missing::Fault => {
                let key = self.description.source.key_shown(&item.key);
                self.findings.add(format!("{key} has no result"));
            }
            Missing::Expected | Missing::Elsewhere => self.missing += 1,
        }
        Ok(())
    }

    /// Counts results of items that are gone, up to a key or to the end.
    fn drop_results_below(&mut self, up_to: Option<&[u8]>) -> anyhow::Result<()> {
        while let Some(key) = self.next.take_if(|key| up_to.is_none_or(|it| key.as_slice() < it)) {
            self.gone += 1;
            self.unread.had_result(&key);
            if !self.may_change {
                let key = self.description.source.key_shown(&key);
                self.findings.add(format!("{key} has a result, but is not in the source"));
            }
            self.next = self.keys.next()?;
        }
        Ok(())
    }

    /// Reports unreadable entries, and notes about changed and missing items.
    fn report(&mut self) {
        self.unread.report(self.findings);
        let Self { new, gone, missing, .. } = self;
        if self.may_change && (*new > 0 || *gone > 0) {
            self.findings
                .note(format!("since the run, {gone} items were deleted and {new} are new"));
        }
        match self.claim.missing {
            Missing::Expected if *missing > 0 => {
                self.findings.note(format!(
                    "{missing} items have no result: they were in progress when a worker was lost"
                ));
            }
            Missing::Elsewhere => {
                self.findings.note(format!(
                    "{missing} items have no result here: each machine keeps the results of its \
                     own work"
                ));
            }
            Missing::Fault | Missing::Expected => {}
        }
    }
}

/// Whether a key is in the parked part of a shard.
fn is_parked(shards: &[Stored], key: &[u8]) -> bool {
    let at = shards.partition_point(|shard| shard.end.as_slice() <= key);
    shards.get(at).is_some_and(|shard| {
        shard.parked.is_some() && shard.reached.as_deref().is_none_or(|reached| key > reached)
    })
}

/// Whether an item was created or changed after the source was listed.
fn is_newer(description: &Description, item: &Item) -> bool {
    let changed_ms = match &item.payload {
        Payload::File(path) => match std::fs::symlink_metadata(path) {
            Ok(metadata) => changed_ms(&metadata),
            Err(_) => return true,
        },
        Payload::Object { modified_ms: Some(modified_ms), .. } => *modified_ms,
        Payload::Object { modified_ms: None, .. } | Payload::Row { .. } => return false,
    };
    is_after(description, changed_ms)
}

/// The change time of a file or folder, in milliseconds since 1970.
pub(super) fn changed_ms(metadata: &Metadata) -> u64 {
    let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
    let rest = u64::try_from(metadata.ctime_nsec()).unwrap_or_default() / 1_000_000;
    seconds.saturating_mul(1_000).saturating_add(rest)
}

/// Whether a time is after the listing of the source, with a second of tolerance for coarse clocks.
fn is_after(description: &Description, at_ms: u64) -> bool {
    description.listed_at_ms.is_some_and(|listed| at_ms + 1_000 >= listed)
}
