//! Whether a run that is there is the one that was asked for.

use shardwright_coordination::RunName;

use crate::description::{Description, Results};
use crate::options::JobOptions;
use crate::source::Source;

/// What was asked for, as far as a run can differ from it.
pub(crate) struct Asked<'a> {
    pub(crate) options: &'a JobOptions,
    pub(crate) source: &'a Source,
    /// Where results are to go, if that was said.
    pub(crate) results: Option<&'a Results>,
}

impl Asked<'_> {
    /// Refuses a run that does something else, and names what.
    pub(crate) fn ensure_same(
        &self,
        name: RunName,
        description: &Description,
    ) -> anyhow::Result<()> {
        let differing = self.differing(description);
        anyhow::ensure!(
            differing.is_empty(),
            "the run {name} was begun {}; say --fresh to begin it anew, or another --run NAME",
            differing.join(", ")
        );
        Ok(())
    }

    /// What a run was begun with that was not asked for. What the rows of a file say is not
    /// compared here: that is found out when they are read.
    pub(crate) fn differing(&self, begun: &Description) -> Vec<String> {
        let Self { options, source, results } = self;
        let mut differing = Vec::new();
        if begun.command() != options.command {
            differing.push("with another command".to_owned());
        }
        if begun.mode != options.mode {
            differing.push("with items handed out otherwise (--batch, --persistent)".to_owned());
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
                if begun.trim_end_matches('/') == url.trim_end_matches('/') => {}
            (Source::Library { identity: begun }, Source::Library { identity })
                if begun == identity => {}
            (other, _) => differing.push(format!("with another source ({})", other.title())),
        }
        if results.is_some_and(|results| *results != begun.results) {
            differing.push(format!("with results on {}", begun.results.place()));
        }
        differing
    }
}

fn flag(differing: &mut Vec<String>, flag: &str, begun: bool, asked: bool) {
    match (begun, asked) {
        (true, false) => differing.push(format!("with {flag}")),
        (false, true) => differing.push(format!("without {flag}")),
        (true, true) | (false, false) => {}
    }
}
