//! Long outputs, compared with their lengths and digests in the result file.
//!
//! The result file names them. Only files in the run's own folder of outputs are read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::Deserialize;
use shardwright_connectors::{PlainName, open_regular};

use super::Findings;
use super::results::KeyJson;
use crate::objects::ObjectSink;

/// The fields of a line that are needed here.
#[derive(Deserialize)]
struct Line {
    stdout_path: Option<KeyJson>,
    stdout_bytes: Option<u64>,
    stdout_blake3: Option<String>,
    stderr_path: Option<KeyJson>,
    stderr_bytes: Option<u64>,
    stderr_blake3: Option<String>,
}

/// An output that a line names.
struct Named {
    path: Option<KeyJson>,
    bytes: Option<u64>,
    blake3: Option<String>,
}

impl Line {
    fn outputs(self) -> [Named; 2] {
        let Self { stdout_path, stdout_bytes, stdout_blake3, .. } = self;
        let Self { stderr_path, stderr_bytes, stderr_blake3, .. } = self;
        [
            Named { path: stdout_path, bytes: stdout_bytes, blake3: stdout_blake3 },
            Named { path: stderr_path, bytes: stderr_bytes, blake3: stderr_blake3 },
        ]
    }
}

/// The content at a location.
struct Seen {
    location: Vec<u8>,
    /// Length and digest, or why it cannot be read.
    content: Result<(u64, String), String>,
}

/// Compares each output that the result file names with its length and digest. `outputs` is the
/// folder or the URL of the run's outputs.
pub(super) async fn compare(
    results: &Path,
    outputs: &Path,
    objects: Option<&ObjectSink>,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    // Lines one after the other may name the same output.
    let mut seen: Option<Seen> = None;
    for (line, number) in BufReader::new(open_regular(results)?).split(b'\n').zip(1_u64..) {
        // Lines that are not results were reported before.
        let Ok(line) = serde_json::from_slice::<Line>(&line?) else { continue };
        for named in line.outputs() {
            let Some(location) = named.path.as_ref().and_then(KeyJson::bytes) else { continue };
            let now = match seen.take().filter(|seen| seen.location == location) {
                Some(seen) => seen,
                None => Seen { content: read(&location, outputs, objects).await, location },
            };
            now.compare(number, &named, findings);
            seen = Some(now);
        }
    }
    Ok(())
}

impl Seen {
    fn compare(&self, line: u64, named: &Named, findings: &mut Findings) {
        // In full, with control characters escaped.
        let shown = format!("{:?}", OsStr::from_bytes(&self.location));
        match &self.content {
            Err(why) => findings.add(format!("line {line}: {shown} cannot be read: {why}")),
            Ok((bytes, digest)) => {
                let is_same = named.bytes.is_none_or(|expected| expected == *bytes)
                    && named.blake3.as_ref().is_none_or(|expected| expected == digest);
                if !is_same {
                    findings.add(format!("line {line}: {shown} differs from what was written"));
                }
            }
        }
    }
}

async fn read(
    location: &[u8],
    outputs: &Path,
    objects: Option<&ObjectSink>,
) -> Result<(u64, String), String> {
    let name = PlainName::of(Path::new(OsStr::from_bytes(location)), outputs);
    let name = name.ok_or("it is not at the location of the results")?;
    let path = name.in_folder(outputs);
    let file = match objects {
        None => open_regular(&path).map_err(|error| error.to_string())?,
        Some(objects) => fetch(&path, objects).await.map_err(|error| format!("{error:#}"))?,
    };
    let mut hasher = blake3::Hasher::new();
    let read = hasher.update_reader(file).map_err(|error| error.to_string())?;
    Ok((read.count(), read.finalize().to_hex().to_string()))
}

async fn fetch(url: &Path, objects: &ObjectSink) -> anyhow::Result<File> {
    let url = url.to_str();
    let name = url.and_then(|url| url.strip_prefix(&objects.url_of("")));
    let name = name.ok_or_else(|| anyhow::anyhow!("its name is not text"))?;
    let fetched = tempfile::NamedTempFile::new()?;
    objects.get_file(name, fetched.path()).await?;
    Ok(fetched.reopen()?)
}
