//! The result file, line by line, compared with the extents in the store.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use shardwright_connectors::open_regular;

use super::Findings;
use super::shards::{Stored, TokenExtent};

/// Counts of the result file.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) lines: u64,
    pub(super) file_bytes: u64,
    pub(super) item_bytes: u64,
    pub(super) retries: u64,
    pub(super) failed: u64,
    pub(super) digest: String,
    /// Results on other machines.
    pub(super) elsewhere: u64,
}

/// Which results belong in the file.
pub(super) enum ResultLocation {
    /// All of them.
    Shared,
    /// Those whose segments are in this folder of this machine.
    Local(PathBuf),
}

impl ResultLocation {
    fn has(&self, extent: &TokenExtent) -> bool {
        match self {
            Self::Shared => true,
            Self::Local(folder) => {
                let segment = format!("{:016x}-{:016x}", extent.shard, extent.fence);
                folder.join(segment).exists()
            }
        }
    }

    pub(super) const fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }
}

/// The fields of a line that are needed here.
#[derive(Deserialize)]
pub(super) struct Line {
    key: KeyJson,
    #[serde(default)]
    bytes: u64,
    #[serde(alias = "attempt")]
    attempts: Option<u64>,
    failed: Option<String>,
}

/// Bytes as JSON: text, or base64 if they are not UTF-8.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum KeyJson {
    Text(String),
    Bytes { base64: String },
}

impl KeyJson {
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        use base64::Engine as _;
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Bytes { base64 } => base64::engine::general_purpose::STANDARD.decode(base64).ok(),
        }
    }
}

impl Line {
    pub(super) fn key(&self) -> Option<Vec<u8>> {
        self.key.bytes()
    }
}

/// Reads the file once: counts, checks the order of keys, and compares digests.
pub(super) fn read(
    path: &Path,
    shards: &[Stored],
    location: &ResultLocation,
    findings: &mut Findings,
) -> anyhow::Result<Read> {
    let file = open_regular(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut reader = BufReader::new(file);
    let (mut whole, mut read) = (blake3::Hasher::new(), Read::default());
    let extents = || shards.iter().flat_map(|shard| &shard.token.extents);
    read.elsewhere = extents().filter(|it| !location.has(it)).map(|extent| extent.items).sum();
    let mut extents = extents().filter(|extent| location.has(extent));
    let mut extent = extents.next();
    let (mut part, mut part_bytes, mut part_lines) = (blake3::Hasher::new(), 0_u64, 0_u64);
    let (mut line, mut before) = (Vec::new(), None);
    while {
        line.clear();
        reader.read_until(b'\n', &mut line)?
    } > 0
    {
        read.lines += 1;
        read.file_bytes += line.len() as u64;
        whole.update(&line);
        part.update(&line);
        part_bytes += line.len() as u64;
        part_lines += 1;
        if let Some(expected) = extent
            && part_bytes >= expected.length
        {
            let matches = part_bytes == expected.length
                && part_lines == expected.items
                && *part.finalize().as_bytes() == expected.digest;
            if !matches {
                findings.add(format!(
                    "line {} and before: differs from what was committed",
                    read.lines
                ));
            }
            extent = extents.next();
            (part, part_bytes, part_lines) = (blake3::Hasher::new(), 0, 0);
        }
        let parsed = serde_json::from_slice::<Line>(&line).ok();
        let Some((parsed, key)) = parsed.and_then(|line| line.key().map(|key| (line, key))) else {
            findings.add(format!("line {} is not a result", read.lines));
            continue;
        };
        read.item_bytes += parsed.bytes;
        read.failed += u64::from(parsed.failed.is_some());
        read.retries += parsed.attempts.unwrap_or(1).saturating_sub(1);
        match &before {
            Some(before) if *before == key => {
                findings.add(format!("line {}: the same key as the line before", read.lines));
            }
            Some(before) if *before > key => {
                findings.add(format!("line {}: its key is out of order", read.lines));
            }
            Some(_) | None => {}
        }
        before = Some(key);
    }
    if extent.is_some() || part_bytes > 0 {
        findings.add("the result file is longer or shorter than what was committed");
    }
    read.digest = whole.finalize().to_hex().to_string();
    Ok(read)
}
