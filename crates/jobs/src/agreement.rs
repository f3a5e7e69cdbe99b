//! Comparing an existing run with the requested one.

use shardwright_coordination::RunName;

use crate::description::{Description, Results};
use crate::options::JobOptions;
use crate::source::Source;

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
        anyhow::ensure!(
            differing.is_empty(),
            "run {name} was started {}; add --fresh to start it over, or choose another --run NAME",
            differing.join(", ")
        );
        Ok(())
    }

    /// The differences between a run and the request. The content of a file of rows is not compared
    /// here: its fingerprint is compared when it is opened.
    pub(crate) fn differing(&self, begun: &Description) -> Vec<String> {
        let Self { options, source, results } = self;
        let mut differing = Vec::new();
        if begun.command() != options.command {
            differing.push("with another command".to_owned());
        }
        if begun.mode != options.mode {
            differing.push("with another --batch or --persistent".to_owned());
        }
        flag(&mut differing, "--at-dispatch", begun.at_dispatch, options.at_dispatch);
        match (&begun.source, source) {
            (Source::Lines { null: begun, .. }, Source::Lines { null, .. }) => {
                flag(&mut differing, "--null", *begun, *null);
            }
            (
                Source::Tree { path: begun, gitignore: ignored },
                Source::Tree { path, gitignore },
            ) if begun == path => flag(&mut differing, "--gitignore", *ignored, *gitignore),
            (Source::Objects { url: begun }, Source::Objects { url })
                if begun.as_str().trim_end_matches('/') == url.as_str().trim_end_matches('/') => {}
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

fn flag(differing: &mut Vec<String>, flag: &str, begun: bool, requested: bool) {
    match (begun, requested) {
        (true, false) => differing.push(format!("with {flag}")),
        (false, true) => differing.push(format!("without {flag}")),
        (true, true) | (false, false) => {}
    }
}
