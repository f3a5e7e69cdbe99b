//! Which placeholders a command may contain.

use serde::{Deserialize, Serialize};

use crate::record::KeyText;

/// What stands for an item by default.
const ITEM: &str = "{}";

/// The placeholders that a command may contain. All other text is passed as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Placeholders {
    /// `{}` alone, as in commands that were stored before there were others.
    ItemOnly,
    /// Those of GNU parallel, with its meaning: `{.}`, `{/}`, `{//}`, `{/.}`, `{%}`, `{#}`, and a
    /// text that stands for the item.
    Parallel {
        /// The text, `{}` by default.
        item: KeyText<'static>,
    },
}

impl Placeholders {
    /// `{}` alone.
    #[must_use]
    pub const fn item_only() -> Self {
        Self::ItemOnly
    }

    /// Those of GNU parallel, with another text for the item.
    #[must_use]
    pub fn with_item(text: &[u8]) -> Self {
        Self::Parallel { item: KeyText::new(text).into_owned() }
    }

    /// The text that stands for the item. It is empty if what was stored is damaged.
    #[must_use]
    pub fn item(&self) -> Vec<u8> {
        match self {
            Self::ItemOnly => ITEM.as_bytes().to_vec(),
            Self::Parallel { item } => item.to_bytes().unwrap_or_default(),
        }
    }

    /// The text that stands for the item, if it is not the usual one.
    #[must_use]
    pub fn unusual_item(&self) -> Option<Vec<u8>> {
        Some(self.item()).filter(|item| item != ITEM.as_bytes())
    }
}

/// Those of GNU parallel.
impl Default for Placeholders {
    fn default() -> Self {
        Self::with_item(ITEM.as_bytes())
    }
}
