//! From the options of a run to its source.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use shardwright_connectors::{GivenPath, ObjectUrl};
use shardwright_process::KeyText;

use super::Source;
use super::spooled::read_pipe;
use crate::description::{Mode, path_text};
use crate::options::JobOptions;

/// Longest list of paths in a description, in bytes. The description has to fit into one record.
const PATHS_BYTES_MAX: usize = 400_000;

impl Source {
    /// The requested source. Stdin is spooled to its end.
    pub(crate) async fn from_options(options: &JobOptions, state: &Path) -> anyhow::Result<Self> {
        if let Some(source) = Self::without_stdin(options)? {
            return Ok(source);
        }
        let path = path_text(&read_pipe(state).await?);
        Ok(Self::Lines { path, null: options.null, piped: true })
    }

    /// The requested source, unless it is stdin.
    pub(crate) fn without_stdin(options: &JobOptions) -> anyhow::Result<Option<Self>> {
        let source = match (&options.lines, options.sources.as_slice()) {
            (Some(lines), _) if lines.as_os_str() == "-" => None,
            (Some(lines), _) => Some(rows_of(lines, options.null)?),
            (None, []) => anyhow::bail!("there is no source"),
            (None, [only]) => one(only, options)?,
            (None, several) => Some(paths(several, options)?),
        };
        ensure_flags_apply(source.as_ref(), options)?;
        Ok(source)
    }
}

/// A single source. None if it is stdin.
fn one(given: &OsStr, options: &JobOptions) -> anyhow::Result<Option<Source>> {
    if given == "-" {
        anyhow::ensure!(!options.is_scan(), "a scan reads files, not stdin; name files or folders");
        return Ok(None);
    }
    let (gitignore, filter) = (options.gitignore, options.filter.clone());
    if let Some(url) = url_of(given) {
        return Ok(Some(Source::Objects { url: url.into(), filter }));
    }
    let path = Path::new(given);
    let found = absolute(path)?;
    if found.is_dir() {
        return Ok(Some(Source::Tree { path: path_text(&found), gitignore, filter }));
    }
    if options.is_scan() || options.files {
        return paths(&[given], options).map(Some);
    }
    rows_of(path, options.null).map(Some)
}

/// Several files and folders.
fn paths(given: &[impl AsRef<OsStr>], options: &JobOptions) -> anyhow::Result<Source> {
    for one in given.iter().map(AsRef::as_ref) {
        anyhow::ensure!(one != "-", "`-` reads stdin, and cannot be combined with other sources");
        if let Some(url) = url_of(one) {
            // Its credentials are not shown.
            let url = ObjectUrl::from(url);
            anyhow::bail!("{url} is an object store, which cannot be combined with other sources");
        }
    }
    let found: anyhow::Result<Vec<GivenPath>> =
        given.iter().map(|one| given_path(Path::new(one))).collect();
    let found = GivenPath::outermost(found?);
    let (gitignore, filter) = (options.gitignore, options.filter.clone());
    if let [GivenPath { path, is_folder: true, .. }] = found.as_slice() {
        return Ok(Source::Tree { path: path_text(&absolute(path)?), gitignore, filter });
    }
    let bytes: usize =
        found.iter().map(|one| one.path.as_os_str().len() + one.shown.as_os_str().len() + 6).sum();
    anyhow::ensure!(
        bytes <= PATHS_BYTES_MAX,
        "{} paths are too many for one command line; name their folder, with --include GLOB, or \
         pipe them: `printf '%s\\0' ... | shardwright run - -0 -- COMMAND`",
        found.len()
    );
    let paths = found.iter().map(|one| match one.is_folder {
        true => {
            KeyText::new(&[one.path.as_os_str().as_encoded_bytes(), b"/"].concat()).into_owned()
        }
        false => path_text(&one.path),
    });
    Ok(Source::Paths { paths: paths.collect(), gitignore, filter })
}

fn url_of(given: &OsStr) -> Option<&str> {
    given.to_str().filter(|given| given.contains("://"))
}

/// Looks at a given path. The folders above it are resolved, but not a link that it is itself.
pub(super) fn given_path(shown: &Path) -> anyhow::Result<GivenPath> {
    let failed = || format!("{} does not exist or cannot be read", shown.display());
    let found = std::fs::metadata(shown).with_context(failed)?;
    anyhow::ensure!(
        found.is_dir() || found.is_file(),
        "{} is neither a file nor a folder",
        shown.display()
    );
    let path = match (shown.parent(), shown.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            absolute(parent)?.join(name)
        }
        _ => absolute(shown)?,
    };
    Ok(GivenPath { path, is_folder: found.is_dir(), shown: shown.to_owned() })
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::fs::canonicalize(path)
        .with_context(|| format!("{} does not exist or cannot be read", path.display()))
}

/// A file of rows, which can be read again when the run is resumed. The error for a folder or a
/// pipe names the alternative.
fn rows_of(path: &Path, null: bool) -> anyhow::Result<Source> {
    let (found, shown) = (std::fs::metadata(path), path.display());
    anyhow::ensure!(
        !found.as_ref().is_ok_and(|found| found.is_dir()),
        "{shown} is a folder; omit `--lines` to process its files"
    );
    anyhow::ensure!(
        !found.is_ok_and(|found| !found.is_file()),
        "{shown} is not a file that can be read twice; write its lines to stdin, which is stored, \
         and use `-` as the source"
    );
    Ok(Source::Lines { path: path_text(&absolute(path)?), null, piped: false })
}

/// Rejects a flag that has no meaning for the source. None is stdin.
fn ensure_flags_apply(source: Option<&Source>, options: &JobOptions) -> anyhow::Result<()> {
    let JobOptions { null, files, gitignore, filter, mode, .. } = options;
    let has_folder = match source {
        Some(Source::Tree { .. }) => true,
        Some(Source::Paths { paths, .. }) => {
            paths.iter().any(|path| path.to_bytes().is_some_and(|path| path.ends_with(b"/")))
        }
        _ => false,
    };
    let is_store = matches!(source, Some(Source::Objects { .. }));
    let has_rows = matches!(source, Some(Source::Lines { .. }) | None);
    let is_batch = matches!(mode, Mode::Batch { .. });
    let has_files = matches!(source, Some(Source::Paths { .. }));
    let globs = "it chooses files of folders and objects of stores";
    for (flag, is_given, applies, remedy) in [
        ("--include", !filter.include.is_empty(), has_folder || is_store, globs),
        ("--exclude", !filter.exclude.is_empty(), has_folder || is_store, globs),
        ("--follow", filter.follow, has_folder, "it follows links in folders"),
        ("--gitignore", *gitignore, has_folder, "it skips files of folders"),
        ("--files", *files, has_files, "it makes a file an item, instead of its lines"),
        (
            "--null",
            *null,
            has_rows || is_batch,
            "it separates lines, and the items on the stdin of a --batch command",
        ),
    ] {
        anyhow::ensure!(
            !is_given || applies,
            "{flag} does not apply to {}; {remedy}",
            kind_of(source)
        );
    }
    Ok(())
}

/// A source and its kind, for an error.
fn kind_of(source: Option<&Source>) -> String {
    let Some(source) = source else { return "stdin, whose lines are the items".to_owned() };
    let kind = match source {
        Source::Tree { .. } => "a folder",
        Source::Paths { paths, .. } if paths.len() == 1 => "a file",
        Source::Paths { .. } => "which are items themselves",
        Source::Lines { .. } => "a file whose lines are the items",
        Source::Objects { .. } => "an object store",
        Source::Library { .. } => "code of a program",
    };
    format!("{}, {kind}", source.shown())
}
