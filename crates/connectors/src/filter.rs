//! Globs that choose the items of a source by their paths.
//!
//! A glob is a pattern of a `.gitignore` file, without `!`. Without a `/` inside, it is compared
//! with the name of a file or folder at any depth. Otherwise it is compared with the path below the
//! source. `*` and `?` match no `/`, `**` matches folders, and a `/` at the end matches folders
//! only.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use shardwright_worker::connector::ConnectorError;

/// Most bytes of a pattern. Nested braces overflow the stack at some thousands.
pub(crate) const PATTERN_SIZE_MAX: usize = 1_024;
/// Most globs of a source. Together they take some megabytes.
const GLOBS_MAX: usize = 1_000;

/// Which paths of a source are items.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathFilter {
    include: Option<Box<Gitignore>>,
    exclude: Option<Box<Gitignore>>,
}

impl PathFilter {
    /// Without globs to include, everything is included.
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Result<Self, ConnectorError> {
        Ok(Self { include: matcher(include)?, exclude: matcher(exclude)? })
    }

    /// Whether a path is left out. A folder is left out with everything below it.
    pub(crate) fn excludes(&self, path: &[u8], is_folder: bool) -> bool {
        self.exclude.as_ref().is_some_and(|globs| matches(globs, path, is_folder))
    }

    /// Whether a path is included by itself. A folder is included with everything below it.
    pub(crate) fn includes(&self, path: &[u8], is_folder: bool) -> bool {
        self.include.as_ref().is_none_or(|globs| matches(globs, path, is_folder))
    }

    /// Whether there is no glob to include.
    pub(crate) const fn includes_all(&self) -> bool {
        self.include.is_none()
    }

    /// Whether the file at a path is an item. Considers the folders above it.
    #[cfg(any(feature = "objects", test))]
    pub(crate) fn admits(&self, path: &[u8]) -> bool {
        let ends = memchr::memchr_iter(b'/', path);
        let folders = || ends.clone().filter_map(|end| path.get(..end));
        let is_excluded = self.excludes(path, false) || folders().any(|it| self.excludes(it, true));
        !is_excluded
            && (self.includes(path, false) || folders().any(|folder| self.includes(folder, true)))
    }
}

fn matches(globs: &Gitignore, path: &[u8], is_folder: bool) -> bool {
    globs.matched(OsStr::from_bytes(path), is_folder).is_ignore()
}

fn matcher(globs: &[String]) -> Result<Option<Box<Gitignore>>, ConnectorError> {
    if globs.is_empty() {
        return Ok(None);
    }
    if let Some(glob) = globs.get(GLOBS_MAX) {
        let reason = format!("it is one of more than {GLOBS_MAX} globs");
        return Err(ConnectorError::BadGlob { glob: glob.clone(), reason });
    }
    let mut builder = GitignoreBuilder::new("");
    builder.allow_unclosed_class(false);
    for glob in globs {
        let bad = |reason: &str| ConnectorError::BadGlob {
            glob: glob.clone(),
            reason: reason.to_owned(),
        };
        if glob.trim_end().is_empty() {
            return Err(bad("it is empty"));
        }
        if glob.len() > PATTERN_SIZE_MAX {
            return Err(bad(&format!("it is longer than {PATTERN_SIZE_MAX} bytes")));
        }
        if glob.starts_with('!') {
            return Err(bad("a glob has no `!`; exclude with --exclude, include with --include"));
        }
        // A pattern file has comments and trailing spaces, and a glob has neither.
        let mut line = if glob.starts_with('#') { format!("\\{glob}") } else { glob.clone() };
        let spaces = line.len() - line.trim_end_matches(' ').len();
        if spaces > 0 && !line.ends_with("\\ ") {
            line.insert(line.len() - 1, '\\');
        }
        builder.add_line(None, &line).map_err(|error| bad(&reason_of(error)))?;
    }
    builder.build().map(|globs| Some(Box::new(globs))).map_err(|error| ConnectorError::BadGlob {
        glob: globs.join(" "),
        reason: reason_of(error),
    })
}

/// What is wrong with a glob, without the glob itself.
fn reason_of(error: ignore::Error) -> String {
    match error {
        ignore::Error::Glob { err, .. } => err,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted<'p>(include: &[&str], exclude: &[&str], paths: &[&'p str]) -> Vec<&'p str> {
        let owned = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
        let filter = PathFilter::new(&owned(include), &owned(exclude)).unwrap();
        paths.iter().copied().filter(|path| filter.admits(path.as_bytes())).collect()
    }

    const PATHS: [&str; 7] =
        ["a.jpg", "b.png", "raw/c.jpg", "raw/x/d.jpg", "src/raw/e.jpg", ".hidden.jpg", "raw.txt"];

    #[test]
    fn a_glob_without_a_slash_matches_names_at_any_depth() {
        let jpg = admitted(&["*.jpg"], &[], &PATHS);
        assert_eq!(jpg, ["a.jpg", "raw/c.jpg", "raw/x/d.jpg", "src/raw/e.jpg", ".hidden.jpg"]);
        assert_eq!(admitted(&["?.{jpg,png}"], &["[c-e].jpg"], &PATHS), ["a.jpg", "b.png"]);
    }

    #[test]
    fn a_glob_with_a_slash_matches_the_path_below_the_source() {
        assert_eq!(admitted(&["/*.jpg"], &[], &PATHS), ["a.jpg", ".hidden.jpg"]);
        assert_eq!(admitted(&["raw/*.jpg"], &[], &PATHS), ["raw/c.jpg"]);
        assert_eq!(admitted(&["raw/**/*.jpg"], &[], &PATHS), ["raw/c.jpg", "raw/x/d.jpg"]);
    }

    #[test]
    fn a_folder_counts_with_everything_below_it() {
        assert_eq!(admitted(&["raw/"], &[], &PATHS), ["raw/c.jpg", "raw/x/d.jpg", "src/raw/e.jpg"]);
        assert_eq!(admitted(&["raw"], &["/raw/x"], &PATHS), ["raw/c.jpg", "src/raw/e.jpg"]);
        let outside = ["a.jpg", "b.png", ".hidden.jpg", "raw.txt"];
        assert_eq!(admitted(&[], &["raw"], &PATHS), outside);
        assert_eq!(admitted(&[], &["raw/**"], &PATHS).len(), 5, "nothing below `/raw`");
    }

    #[test]
    fn exclude_wins_over_include() {
        assert_eq!(admitted(&["a.*", "b.*"], &["*.png"], &PATHS), ["a.jpg"]);
    }

    #[test]
    fn names_that_are_special_in_a_pattern_file_are_globs() {
        let paths = ["#a", "a ", "a", "a  "];
        assert_eq!(admitted(&["#a"], &[], &paths), ["#a"]);
        assert_eq!(admitted(&["a "], &[], &paths), ["a "]);
    }

    #[test]
    fn a_bad_glob_is_an_error_with_a_reason() {
        for (glob, part) in [("", "empty"), ("!*.jpg", "--exclude"), ("[a", "unclosed"), ("{a", "")]
        {
            let refused = PathFilter::new(&[], &[glob.to_owned()]).unwrap_err().to_string();
            assert!(refused.contains(part) && refused.contains(glob), "{refused}");
        }
    }

    #[test]
    fn long_globs_and_too_many_are_refused() {
        let nested = |depth: usize| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        let refused = |globs: &[String]| PathFilter::new(globs, &[]).unwrap_err().to_string();
        assert!(PathFilter::new(&[nested(100), "a".repeat(PATTERN_SIZE_MAX)], &[]).is_ok());
        // Within the length, the compiler of patterns limits the depth.
        assert!(PathFilter::new(&[nested(PATTERN_SIZE_MAX / 2 - 1)], &[]).is_err());
        assert!(refused(&[nested(100_000)]).contains("longer than 1024 bytes"));
        assert!(PathFilter::new(&vec!["*.a".to_owned(); GLOBS_MAX], &[]).is_ok());
        assert!(refused(&vec!["*.a".to_owned(); GLOBS_MAX + 1]).contains("more than 1000 globs"));
    }
}
