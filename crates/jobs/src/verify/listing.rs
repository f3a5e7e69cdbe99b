//! The source as it is now, beside the result file.

use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Split};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use shardwright_worker::connector::{
    Connector, Item, KeyRange, PageLimit, Payload, Position, SkipReports,
};

use super::results::Line;
use super::shards::{Ends, Stored};
use super::uncovered::{Admitted, Unread, changed_at_ms};
use super::{Findings, shards};
use crate::description::Description;
use crate::source::{AnyConnector, Source};

/// Keys of the result file, one after the other.
struct Keys {
    lines: Split<BufReader<File>>,
}

impl Keys {
    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        for line in self.lines.by_ref() {
            // What is no result has been found already.
            if let Ok(line) = serde_json::from_slice::<Line>(&line?)
                && let Some(key) = line.key()
            {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// What a run claims about its source.
pub(super) struct Claim {
    /// From where to where it was begun.
    pub(super) whole: Ends,
    pub(super) missing: Missing,
    /// What it says could not be read.
    pub(super) admitted: Admitted,
}

/// What an item without a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Against what the receipt says.
    Fault,
    /// What the receipt warns of: items counted when they were handed out.
    Foretold,
    /// On another machine, perhaps.
    Elsewhere,
}

/// Lists the source anew and compares it with the results, key by key.
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
        findings.add("the source is not the one that the run was begun on");
        return Ok(());
    }
    // The whole of what there is, whatever the run took for the whole.
    let range = source.initial_ranges(1).await?;
    let (start, end) = shards::whole(&range, findings);
    if (&start, &end) != (&claim.whole.0, &claim.whole.1) {
        findings.add("the run was not begun on all of the source");
    }
    let range = KeyRange { start, end };
    let mut keys = Keys { lines: BufReader::new(File::open(results)?).split(b'\n') };
    let next = keys.next()?;
    let mut walk = Walk {
        description,
        shards,
        claim,
        findings,
        // A file of rows has not changed, or its fingerprint would have.
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
            // A part that was in trouble when the run met it may be so still.
            Err(error) if error.is_transient() => {
                source.page(&range, &position, limit.passing_over_trouble()).await?
            }
            page => page?,
        };
        walk.pass_over(&page.skipped);
        for item in &page.items {
            walk.meet(item)?;
        }
        match page.next_position() {
            Some(next) if !page.ended => position = next,
            Some(_) | None => break,
        }
    }
    walk.pass(None)?;
    walk.tell();
    Ok(())
}

/// The source and the result file, side by side.
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
    /// Looks at what is no item, where items may be missing because of it.
    fn pass_over(&mut self, skipped: &SkipReports) {
        let Self { description, shards, claim, unread, .. } = self;
        // Another machine may have met it, and says so in a receipt of its own.
        if claim.missing == Missing::Elsewhere {
            return;
        }
        unread.meet(skipped, |key| {
            let changed_ms = changed_at_ms(description, key);
            is_parked(shards, key) || changed_ms.is_some_and(|at| is_after(description, at))
        });
    }

    /// Looks for the result of an item.
    fn meet(&mut self, item: &Item) -> anyhow::Result<()> {
        self.pass(Some(&item.key))?;
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
            Missing::Foretold | Missing::Elsewhere => self.missing += 1,
        }
        Ok(())
    }

    /// Passes over results of what is not there, up to a key or to the end.
    fn pass(&mut self, up_to: Option<&[u8]>) -> anyhow::Result<()> {
        while let Some(key) = self.next.take_if(|key| up_to.is_none_or(|it| key.as_slice() < it)) {
            self.gone += 1;
            self.unread.had_result(&key);
            if !self.may_change {
                let key = self.description.source.key_shown(&key);
                self.findings.add(format!("{key} has a result and is not there"));
            }
            self.next = self.keys.next()?;
        }
        Ok(())
    }

    /// Tells what could not be looked at, and what is no fault.
    fn tell(&mut self) {
        self.unread.tell(self.findings);
        let Self { new, gone, missing, .. } = self;
        if self.may_change && (*new > 0 || *gone > 0) {
            self.findings.note(format!("since the run, {gone} items have gone and {new} are new"));
        }
        match self.claim.missing {
            Missing::Foretold if *missing > 0 => {
                self.findings.note(format!(
                    "{missing} items have no result: they were under way when a worker was lost"
                ));
            }
            Missing::Elsewhere => {
                self.findings.note(format!(
                    "{missing} items have no result here: this machine has only its own"
                ));
            }
            Missing::Fault | Missing::Foretold => {}
        }
    }
}

/// Whether a key lies in a part of a shard that was set aside.
fn is_parked(shards: &[Stored], key: &[u8]) -> bool {
    let at = shards.partition_point(|shard| shard.end.as_slice() <= key);
    shards.get(at).is_some_and(|shard| {
        shard.parked.is_some() && shard.reached.as_deref().is_none_or(|reached| key > reached)
    })
}

/// Whether an item came into being after the source was listed.
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

/// When a file or folder was changed, in milliseconds since 1970.
pub(super) fn changed_ms(metadata: &Metadata) -> u64 {
    let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
    let rest = u64::try_from(metadata.ctime_nsec()).unwrap_or_default() / 1_000_000;
    seconds.saturating_mul(1_000).saturating_add(rest)
}

/// Whether something happened after the source was listed. The clocks of file systems and object
/// stores are coarse.
fn is_after(description: &Description, at_ms: u64) -> bool {
    description.listed_at_ms.is_some_and(|listed| at_ms + 1_000 >= listed)
}
