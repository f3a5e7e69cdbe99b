//! Rules of the specification, each broken on purpose.

mod leases;
mod op_log;
mod runs;
mod shards;

use anyhow::{Result, bail};

use super::config;

/// The module that is broken; the others only say how to check it.
pub(crate) const MODULE: &str = "ShardRun.tla";

const SMALL: &str = "small.cfg";
const WIDE: &str = "wide.cfg";
const LIVENESS: &str = "liveness.cfg";

/// A defect: the property that must notice it, within which bounds, and a text that occurs once in
/// the module with what replaces it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    pub(crate) property: &'static str,
    pub(crate) config: &'static str,
    find: &'static str,
    replace: &'static str,
}

/// Every defect that must be noticed.
pub(crate) fn all() -> Vec<Mutation> {
    [leases::TABLE, op_log::TABLE, shards::TABLE, runs::TABLE].concat()
}

impl Mutation {
    /// The module with the defect. A text that is not there, or there twice, is an error: the
    /// table has to follow the module.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        match text.matches(self.find).count() {
            1 => Ok(text.replacen(self.find, self.replace, 1)),
            count => bail!("the text to replace occurs {count} times in {MODULE}"),
        }
    }

    /// The module that TLC is started on.
    pub(crate) fn root_module(&self) -> &'static str {
        if config::is_temporal(self.config) { "ShardRunLiveness.tla" } else { "ShardRunCheck.tla" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_only_where_it_occurs_once() {
        let mutation =
            Mutation { name: "n", property: "P", config: SMALL, find: "x < y", replace: "x <= y" };
        assert_eq!(mutation.apply("a == x < y").unwrap(), "a == x <= y");
        assert!(mutation.apply("a == y < x").is_err());
        assert!(mutation.apply("x < y x < y").is_err());
    }
}
