//! Outputs that are too long for the result file, beside what it says of them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::Deserialize;

use super::Findings;
use super::results::KeyJson;
use crate::objects::ObjectSink;

/// As much of a line as is needed here.
#[derive(Deserialize)]
struct Line {
    stdout_path: Option<KeyJson>,
    stdout_bytes: Option<u64>,
    stdout_blake3: Option<String>,
}

/// What is at a place.
struct Seen {
    place: Vec<u8>,
    /// Its length and digest, or why it cannot be read.
    content: Result<(u64, String), String>,
}

/// Reads each output that the result file names, and sees to it that it is the one that was
/// written.
pub(super) async fn compare(
    results: &Path,
    objects: Option<&ObjectSink>,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    // All items of a batch have one output.
    let mut seen: Option<Seen> = None;
    for (line, number) in BufReader::new(File::open(results)?).split(b'\n').zip(1_u64..) {
        // What is no result has been found already.
        let Ok(line) = serde_json::from_slice::<Line>(&line?) else { continue };
        let Some(place) = line.stdout_path.as_ref().and_then(KeyJson::bytes) else { continue };
        let now = match seen.take().filter(|seen| seen.place == place) {
            Some(seen) => seen,
            None => Seen { content: look_at(&place, objects).await, place },
        };
        // As a whole, and with no character in it that means something to a terminal.
        let shown = format!("{:?}", OsStr::from_bytes(&now.place));
        match &now.content {
            Err(why) => findings.add(format!("line {number}: {shown} cannot be read: {why}")),
            Ok((bytes, digest)) => {
                let is_same = line.stdout_bytes.is_none_or(|told| told == *bytes)
                    && line.stdout_blake3.is_none_or(|told| told == *digest);
                if !is_same {
                    findings.add(format!("line {number}: {shown} is not what was written"));
                }
            }
        }
        seen = Some(now);
    }
    Ok(())
}

async fn look_at(place: &[u8], objects: Option<&ObjectSink>) -> Result<(u64, String), String> {
    let file = match objects {
        None => File::open(OsStr::from_bytes(place)).map_err(|error| error.to_string())?,
        Some(objects) => fetch(place, objects).await.map_err(|error| format!("{error:#}"))?,
    };
    let mut hasher = blake3::Hasher::new();
    let read = hasher.update_reader(file).map_err(|error| error.to_string())?;
    Ok((read.count(), read.finalize().to_hex().to_string()))
}

async fn fetch(place: &[u8], objects: &ObjectSink) -> anyhow::Result<File> {
    let name = place.strip_prefix(objects.place("").as_bytes());
    let name = name.and_then(|name| str::from_utf8(name).ok());
    let name = name.ok_or_else(|| anyhow::anyhow!("it is not among the results"))?;
    let fetched = tempfile::NamedTempFile::new()?;
    objects.get_file(name, fetched.path()).await?;
    Ok(File::open(fetched.path())?)
}
