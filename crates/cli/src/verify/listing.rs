//! The source as it is now, beside the result file.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;

use shardwright_worker::connector::{Connector, Item, KeyRange, PageLimit, Payload, Position};

use super::{Findings, shards};
use super::results::Line;
use super::shards::{Ends, Stored};
use crate::description::Description;
use crate::readable::readable;
use crate::say::note;
use crate::source::{AnyConnector, Source};

/// Keys of the result file, one after the other.
struct Keys {
    lines: Lines<BufReader<File>>,
}

impl Keys {
    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        for line in self.lines.by_ref() {
            // What is no result has been found already.
            if let Ok(line) = serde_json::from_str::<Line>(&line?)
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
}

/// What an item without a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Against what the receipt says.
    IsFault,
    /// What the receipt warns of: items counted when they were handed out.
    IsTold,
    /// On another machine, perhaps.
    IsElsewhere,
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
    // A file of rows has not changed, or its fingerprint would have.
    let may_change = !matches!(description.source, Source::Lines { .. });
    let mut keys = Keys { lines: BufReader::new(File::open(results)?).lines() };
    let mut next = keys.next()?;
    let (mut position, mut new, mut gone) = (Position::start(), 0_u64, 0_u64);
    let mut missing = 0_u64;
    loop {
        let page = source.page(&range, &position, PageLimit::default()).await?;
        for item in &page.items {
            while next.as_deref().is_some_and(|key| key < item.key.as_ref()) {
                let key = next.take().unwrap_or_default();
                gone += 1;
                if !may_change {
                    findings.add(format!("{} has a result and is not there", readable(&key)));
                }
                next = keys.next()?;
            }
            if next.as_deref() == Some(item.key.as_ref()) {
                next = keys.next()?;
                continue;
            }
            if is_parked(shards, &item.key) {
                continue;
            }
            match claim.missing {
                _ if may_change && is_newer(description, item) => new += 1,
                Missing::IsFault => {
                    findings.add(format!("{} has no result", readable(&item.key)));
                }
                Missing::IsTold | Missing::IsElsewhere => missing += 1,
            }
        }
        match page.next_position() {
            Some(next) if !page.ended => position = next,
            Some(_) | None => break,
        }
    }
    while let Some(key) = next {
        gone += 1;
        if !may_change {
            findings.add(format!("{} has a result and is not there", readable(&key)));
        }
        next = keys.next()?;
    }
    if may_change && (new > 0 || gone > 0) {
        note!("since the run, {gone} items have gone and {new} are new");
    }
    match claim.missing {
        Missing::IsTold if missing > 0 => {
            note!("{missing} items have no result: they were under way when a worker was lost");
        }
        Missing::IsElsewhere => {
            note!("{missing} items have no result here: this machine has only its own");
        }
        Missing::IsFault | Missing::IsTold => {}
    }
    Ok(())
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
    use std::os::unix::fs::MetadataExt;
    let changed_ms = match &item.payload {
        Payload::File(path) => {
            let Ok(metadata) = std::fs::symlink_metadata(path) else { return true };
            let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
            let rest = u64::try_from(metadata.ctime_nsec()).unwrap_or_default() / 1_000_000;
            seconds.saturating_mul(1_000).saturating_add(rest)
        }
        Payload::Object { modified_ms: Some(modified_ms), .. } => *modified_ms,
        Payload::Object { modified_ms: None, .. } | Payload::Row { .. } => return false,
    };
    // The clocks of file systems and object stores are coarse.
    description.listed_at_ms.is_some_and(|listed| changed_ms + 1_000 >= listed)
}
