//! Which files or objects of a source are items.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shardwright_connectors::TreeOptions;

/// Which files or objects of a source are items. By default all, and no link is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Globs of which an item matches one, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Globs of which an item matches none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Whether symbolic links are followed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

impl Filter {
    pub(crate) const fn is_default(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty() && !self.follow
    }

    /// The options of a tree. Files in `ours` are not items.
    pub(super) fn tree_options(&self, gitignore: bool, ours: &[PathBuf]) -> TreeOptions {
        TreeOptions {
            state_folders: ours.to_vec(),
            respect_gitignore: gitignore,
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            follow_links: self.follow,
        }
    }
}
