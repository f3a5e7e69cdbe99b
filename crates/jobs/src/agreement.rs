//! Comparing an existing run with the requested one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use shardwright_coordination::RunName;

use crate::description::{Description, Mode, Results};
use crate::interface::Interface;
use crate::options::JobOptions;
use crate::readable::quoted;
use crate::source::{Filter, Source};

/// The request, as far as a run can differ from it.
pub(crate) struct Requested<'a> {
    pub(crate) options: &'a JobOptions,
    pub(crate) source: &'a Source,
    /// The location of the results, if it was given.
    pub(crate) results: Option<&'a Results>,
}

impl Requested<'_> {
    /// Rejects a run that differs, and names the differences.
    pub(crate) fn ensure_same(
        &self,
        name: RunName,
        description: &Description,
    ) -> anyhow::Result<()> {
        let differing = self.differing(description);
        let interface = Interface::of(self.options.mode);
        anyhow::ensure!(
            differing.is_empty(),
            "run {name} was started {}; {} to start it over, or {}",
            differing.join(", "),
            interface.start_over(),
            interface.other_name()
        );
        Ok(())
    }

    /// The differences between a run and the request. The content of a file of rows is not compared
    /// here: its fingerprint is compared when it is opened.
    pub(crate) fn differing(&self, begun: &Description) -> Vec<String> {
        let Self { options, source, results } = self;
        let mut differing = differing_work(begun, options);
        flag(&mut differing, "--at-dispatch", begun.at_dispatch, options.at_dispatch);
        let is_null = |source: &Source, mode| {
            matches!(source, Source::Lines { null: true, .. })
                || matches!(mode, Mode::Batch { null: true, .. })
        };
        let (had_null, has_null) =
            (is_null(&begun.source, begun.mode), is_null(source, options.mode));
        flag(&mut differing, "--null", had_null, has_null);
        match (&begun.source, source) {
            (Source::Lines { .. }, Source::Lines { .. }) => {}
            (
                Source::Tree { path: begun, gitignore: ignored, filter: chosen },
                Source::Tree { path, gitignore, filter },
            ) if begun == path => {
                flag(&mut differing, "--gitignore", *ignored, *gitignore);
                differing_filter(&mut differing, chosen, filter);
            }
            (
                Source::Paths { paths: begun, gitignore: ignored, filter: chosen },
                Source::Paths { paths, gitignore, filter },
            ) if begun == paths => {
                flag(&mut differing, "--gitignore", *ignored, *gitignore);
                differing_filter(&mut differing, chosen, filter);
            }
            (Source::Objects { url: begun, filter: chosen }, Source::Objects { url, filter })
                if begun.as_str().trim_end_matches('/') == url.as_str().trim_end_matches('/') =>
            {
                differing_filter(&mut differing, chosen, filter);
            }
            (Source::Library { identity: begun }, Source::Library { identity })
                if begun == identity => {}
            (other, _) => differing.push(format!("with another source ({})", other.title())),
        }
        if results.is_some_and(|results| *results != begun.results) {
            differing.push(format!("with results in {}", begun.results.location()));
        }
        differing
    }
}

/// The differences in what is done with the items.
fn differing_work(begun: &Description, options: &JobOptions) -> Vec<String> {
    let command = begun.command();
    let mut differing = Vec::new();
    match (begun.mode, options.mode) {
        (Mode::Library, Mode::Library) => {}
        (Mode::Library, _) => differing.push("by a program with the library".to_owned()),
        (Mode::Scan { shows_secrets: had }, Mode::Scan { shows_secrets: has }) => {
            // The command of a scan is the digest of its rules.
            if command != options.command {
                differing.push("with other rules".to_owned());
            }
            flag(&mut differing, "--show-secrets", had, has);
        }
        (Mode::Scan { .. }, _) => differing.push("by `shardwright scan`".to_owned()),
        (had, has) => {
            if command != options.command || begun.shell != options.shell {
                differing.push(format!("with another command (`{}`)", begun.command_line()));
            }
            differing.extend(differing_placeholders(begun, options));
            match (had, has) {
                (Mode::Batch { size, .. }, Mode::Batch { size: same, .. }) if size == same => {}
                (Mode::Batch { size, .. }, _) => differing.push(format!("with --batch {size}")),
                (Mode::Persistent, Mode::Item | Mode::Batch { .. }) => {
                    differing.push("with --persistent".to_owned());
                }
                (Mode::Item, Mode::Batch { .. } | Mode::Persistent) => {
                    differing.push("with a process per item".to_owned());
                }
                _ => {}
            }
        }
    }
    differing
}

/// A run of an earlier version knows fewer placeholders, and keeps them. That is no difference.
fn differing_placeholders(begun: &Description, options: &JobOptions) -> Option<String> {
    match (begun.placeholders.unusual_item(), options.placeholders.unusual_item()) {
        (had, has) if had == has => None,
        (Some(item), _) => Some(format!("with -I {}", quoted(&OsString::from_vec(item)))),
        (None, _) => Some("without -I".to_owned()),
    }
}

/// The differences in the choice of items.
fn differing_filter(differing: &mut Vec<String>, begun: &Filter, requested: &Filter) {
    flag(differing, "--follow", begun.follow, requested.follow);
    for (flag, begun, requested) in [
        ("--include", &begun.include, &requested.include),
        ("--exclude", &begun.exclude, &requested.exclude),
    ] {
        if begun.is_empty() && !requested.is_empty() {
            differing.push(format!("without {flag}"));
        } else if begun != requested {
            let flags = begun.iter().map(|glob| format!("{flag} {}", quoted(glob.as_ref())));
            differing.push(format!("with `{}`", flags.collect::<Vec<_>>().join(" ")));
        }
    }
}

fn flag(differing: &mut Vec<String>, flag: &str, begun: bool, requested: bool) {
    match (begun, requested) {
        (true, false) => differing.push(format!("with {flag}")),
        (false, true) => differing.push(format!("without {flag}")),
        (true, true) | (false, false) => {}
    }
}
