//! The description of a run, stored with it, so that every process does the same work.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shardwright_connectors::ObjectUrl;
use shardwright_process::{KeyText, Limits, Placeholders};
use shardwright_worker::connector::{KeyRange, SourceFingerprint};

use crate::options::JobOptions;
use crate::readable::{command_line, quoted};
use crate::source::{Source, folder_of_url};

/// The version of new descriptions. In version 1, `{}` was the only placeholder of a command, and a
/// source had one path and no filter.
const VERSION: u32 = 2;

/// The description of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    version: u32,
    /// The source of items.
    pub source: Source,
    /// The identity of the source.
    pub(crate) fingerprint: String,
    /// Time when a source that may change was listed, in milliseconds since 1970.
    pub(crate) listed_at_ms: Option<u64>,
    /// The command.
    pub command: Vec<KeyText<'static>>,
    /// Whether the command is one line for a shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// What stands for items in it.
    #[serde(default = "Placeholders::item_only")]
    pub placeholders: Placeholders,
    /// How items are passed to it.
    pub mode: Mode,
    /// Limits of each program. They may differ in each process, so they are no difference between
    /// runs.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Whether cursors move at dispatch.
    #[serde(default)]
    pub at_dispatch: bool,
    /// The source as it was given, if it is a path. Commands get paths below it.
    given: Option<KeyText<'static>>,
    /// The same for a source of several paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    given_paths: Vec<KeyText<'static>>,
    /// The location of the results.
    pub results: Results,
    /// The ranges of the first shards, in hex.
    ranges: Vec<[String; 2]>,
}

/// How items are passed to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mode {
    /// A process per item.
    Item,
    /// A process per batch.
    Batch {
        /// Items per batch.
        size: u32,
        /// Whether items on its stdin are separated by NUL.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        null: bool,
    },
    /// Persistent processes.
    Persistent,
    /// No command: the built-in scan for secrets.
    Scan {
        /// Whether results contain secrets unredacted.
        shows_secrets: bool,
    },
    /// A handler in the code of a program.
    Library,
}

/// The location of the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Results {
    /// In a folder that all workers reach.
    Folder {
        /// The folder, absolute.
        path: KeyText<'static>,
    },
    /// In an object store.
    Objects {
        /// Its URL.
        #[serde(with = "object_url")]
        url: ObjectUrl,
    },
    /// On each machine, the results of its own work.
    Local,
}

impl Results {
    /// A folder that all workers reach.
    pub fn folder(path: &Path) -> Self {
        Self::Folder { path: path_text(path) }
    }

    /// Parses a folder or a URL. A `file://` URL is a folder.
    pub fn parse(location: &OsStr) -> anyhow::Result<Self> {
        let url = location.to_str().filter(|location| location.contains("://"));
        let folder = match url {
            Some(url) => match folder_of_url(url) {
                Some(folder) => folder,
                None => return Ok(Self::Objects { url: url.into() }),
            },
            None => PathBuf::from(location),
        };
        Ok(Self::folder(&future_path(&folder)?))
    }

    /// Creates the folder, if it is one, and returns its canonical path.
    pub fn created(self) -> anyhow::Result<Self> {
        let Self::Folder { path } = &self else { return Ok(self) };
        let folder = path_of(path);
        let created =
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::canonicalize(&folder));
        let failed = || format!("{} cannot be created", folder.display());
        Ok(Self::folder(&created.with_context(failed)?))
    }

    /// Whether this program can have stored the location.
    fn is_valid(&self) -> bool {
        match self {
            Self::Folder { path } => is_canonical(path),
            Self::Objects { url } => folder_of_url(url.as_str()).is_none(),
            Self::Local => true,
        }
    }

    /// The location as text.
    pub fn location(&self) -> String {
        match self {
            Self::Folder { path } => path_of(path).display().to_string(),
            Self::Objects { url } => url.to_string(),
            Self::Local => "the state folder of each machine".to_owned(),
        }
    }
}

/// The canonical path of a file or folder that may not exist yet.
pub(crate) fn future_path(path: &Path) -> anyhow::Result<PathBuf> {
    let invalid = || format!("{} is not a valid path", path.display());
    let absolute = std::path::absolute(path).with_context(invalid)?;
    let canonical = |above: &Path| Some((std::fs::canonicalize(above).ok()?, above.to_owned()));
    match absolute.ancestors().find_map(canonical) {
        Some((real, above)) => {
            let missing = absolute.strip_prefix(&above).unwrap_or(Path::new(""));
            Ok(if missing.as_os_str().is_empty() { real } else { real.join(missing) })
        }
        None => Ok(absolute),
    }
}

/// A URL as JSON. Its credentials are not stored.
pub(crate) mod object_url {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use shardwright_connectors::ObjectUrl;

    pub(crate) fn serialize<S: Serializer>(url: &ObjectUrl, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(url.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectUrl, D::Error> {
        String::deserialize(from).map(ObjectUrl::from)
    }
}

/// A path as JSON, with any bytes.
pub(crate) fn path_text(path: &Path) -> KeyText<'static> {
    KeyText::new(path.as_os_str().as_bytes()).into_owned()
}

/// Whether a path is absolute and leads into no folder above it, as all stored paths do.
pub(crate) fn is_canonical(text: &KeyText<'_>) -> bool {
    let path = path_of(text);
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    path.is_absolute() && path.components().all(is_plain)
}

/// The path from JSON.
pub(crate) fn path_of(text: &KeyText<'_>) -> PathBuf {
    OsString::from_vec(text.to_bytes().unwrap_or_default()).into()
}

impl Description {
    /// Describes a new run.
    #[must_use]
    pub fn new(
        source: Source,
        fingerprint: &SourceFingerprint,
        options: &JobOptions,
        results: Results,
        ranges: &[KeyRange],
    ) -> Self {
        let owned = |text: &OsString| KeyText::new(text.as_bytes()).into_owned();
        // A URL as it was given may contain credentials.
        let is_path = matches!(source, Source::Tree { .. } | Source::Lines { .. });
        let given = options.sources.first().filter(|_| is_path).map(owned);
        let is_several = matches!(source, Source::Paths { .. });
        let given_paths = options.sources.iter().filter(|_| is_several).map(owned).collect();
        Self {
            version: VERSION,
            source,
            fingerprint: fingerprint.identity.clone(),
            listed_at_ms: fingerprint.listed_at_ms,
            command: options.command.iter().map(owned).collect(),
            shell: options.shell,
            placeholders: options.placeholders.clone(),
            mode: options.mode,
            limits: options.limits,
            at_dispatch: options.at_dispatch,
            given,
            given_paths,
            results,
            ranges: ranges
                .iter()
                .map(|range| [hex::encode(&range.start), hex::encode(&range.end)])
                .collect(),
        }
    }

    /// Encodes the description.
    pub fn encode(&self) -> anyhow::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Decodes a stored description.
    pub fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let foreign = "the description of the run was not written by this program";
        // Checked first, because a later version may have fields that this one cannot read.
        let Versioned { version } = serde_json::from_slice(bytes).context(foreign)?;
        anyhow::ensure!(
            version <= VERSION,
            "the run was created by a later version of this program (format {version}); use that \
             version"
        );
        let description: Self = serde_json::from_slice(bytes).context(foreign)?;
        anyhow::ensure!(
            description.source.is_valid() && description.results.is_valid(),
            "the description of the run names a path that this program never writes"
        );
        Ok(description)
    }

    /// The paths of the source as they were given. A relative path may name something else here.
    pub fn given(&self) -> Vec<PathBuf> {
        self.given.iter().chain(&self.given_paths).map(path_of).collect()
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> Vec<OsString> {
        let bytes = self.command.iter().map(|part| part.to_bytes().unwrap_or_default());
        bytes.map(OsString::from_vec).collect()
    }

    /// The command for display, as a shell reads it. Flags that change its meaning come first.
    #[must_use]
    pub fn command_line(&self) -> String {
        let given = self.command_arguments();
        given.strip_prefix("-- ").map(str::to_owned).unwrap_or(given)
    }

    /// The arguments by which a command line gives the command.
    #[must_use]
    pub fn command_arguments(&self) -> String {
        let flag = if self.shell { "--shell" } else { "--" };
        let command = format!("{flag} {}", command_line(&self.command()));
        match self.placeholders.unusual_item() {
            Some(item) => format!("-I {} {command}", quoted(&OsString::from_vec(item))),
            None => command,
        }
    }

    /// The ranges of the first shards.
    pub fn ranges(&self) -> anyhow::Result<Vec<KeyRange>> {
        let read = |[start, end]: &[String; 2]| {
            Ok(KeyRange { start: hex::decode(start)?, end: hex::decode(end)? })
        };
        let ranges: anyhow::Result<Vec<KeyRange>> = self.ranges.iter().map(read).collect();
        ranges.context("the ranges of the run are damaged")
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::begin::Begun;
    use crate::source::Filter;
    use crate::testing::{Bench, RUN};

    #[tokio::test]
    async fn description_with_a_path_that_was_never_written_is_refused() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let stored: serde_json::Value =
            serde_json::from_slice(&begun.description.encode().unwrap()).unwrap();
        let decoded = |value: &serde_json::Value| Description::decode(value.to_string().as_bytes());
        assert_eq!(decoded(&stored).unwrap(), begun.description);
        for path in ["", "out", "../out", "/a/../out", "/.."] {
            for part in ["source", "results"] {
                let mut changed = stored.clone();
                changed[part]["path"] = path.into();
                assert!(decoded(&changed).is_err(), "{part} {path:?}");
            }
        }
        let mut changed = stored.clone();
        changed["results"] = serde_json::json!({ "kind": "objects", "url": "file:///etc" });
        assert!(decoded(&changed).is_err());
    }

    #[tokio::test]
    async fn command_of_an_old_run_keeps_its_only_placeholder() {
        let bench = Bench::new().await;
        let mut options = bench.options("echo");
        options.command.extend(["{}", "{.}"].map(OsString::from));
        let begun = bench.begin(&options).await.unwrap();
        assert_eq!(begun.description.placeholders, Placeholders::default());
        let mut stored: serde_json::Value =
            serde_json::from_slice(&begun.description.encode().unwrap()).unwrap();
        stored["version"] = 1.into();
        stored.as_object_mut().unwrap().remove("placeholders");
        let old = Description::decode(stored.to_string().as_bytes()).unwrap();
        assert_eq!(old.placeholders, Placeholders::item_only());
        // The same command line resumes it, and changes nothing about it.
        let begun = Begun { description: old.clone(), ..begun };
        bench.name_instead_of(&begun).await;
        begun.output.reserve(begun.name, RUN, true).await.unwrap();
        let resumed = bench.begin(&options).await.unwrap();
        assert_eq!((resumed.run, resumed.description), (RUN, old));
        options.placeholders = Placeholders::with_item(b"ITEM");
        let refusal = bench.begin(&options).await.err().unwrap().to_string();
        assert!(refusal.contains("was started without -I"), "{refusal}");
    }

    #[tokio::test]
    async fn another_text_for_the_item_is_another_run() {
        let bench = Bench::new().await;
        let item = |text: &[u8]| JobOptions {
            name: None,
            placeholders: Placeholders::with_item(text),
            ..bench.options("cat")
        };
        let usual = bench.begin(&item(b"{}")).await.unwrap();
        let other = JobOptions { out: None, ..item(b"X Y") };
        let begun = bench.begin(&other).await.unwrap();
        assert_ne!(begun.name, usual.name);
        assert_eq!(begun.description.command_line(), "-I 'X Y' -- cat");
        let same_name = JobOptions { name: Some(begun.name), out: None, ..item(b"{}") };
        let refusal = bench.begin(&same_name).await.err().unwrap().to_string();
        assert!(refusal.contains("was started with -I 'X Y'"), "{refusal}");
    }

    #[tokio::test]
    async fn source_without_a_filter_is_stored_as_before() {
        let bench = Bench::new().await;
        let stored = async |options: &JobOptions| {
            let begun = bench.begin(options).await.unwrap();
            let stored = begun.description.encode().unwrap();
            serde_json::from_slice::<serde_json::Value>(&stored).unwrap()
        };
        let plain = stored(&bench.options("cat")).await;
        let path = plain["source"]["path"].clone();
        let before = serde_json::json!({ "kind": "tree", "path": path, "gitignore": false });
        assert_eq!((&plain["source"], plain.get("given_paths")), (&before, None));
        let filter = Filter { follow: true, ..Filter::default() };
        let filtered = stored(&JobOptions { filter, ..bench.fresh("cat") }).await;
        assert_eq!(filtered["source"]["filter"], serde_json::json!({ "follow": true }));
        let one = OsString::from(bench.options("").given().remove(0).join("item"));
        let files = JobOptions { sources: vec![one], files: true, ..bench.fresh("cat") };
        let mut changed = stored(&files).await;
        assert!(Description::decode(changed.to_string().as_bytes()).is_ok());
        changed["source"]["paths"] = serde_json::json!(["relative"]);
        assert!(Description::decode(changed.to_string().as_bytes()).is_err());
    }

    #[tokio::test]
    async fn description_of_a_later_version_names_the_remedy() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let stored = Description { version: VERSION + 1, ..begun.description };
        let refused = Description::decode(&stored.encode().unwrap()).unwrap_err().to_string();
        assert!(refused.ends_with("(format 3); use that version"), "{refused}");
    }
}
