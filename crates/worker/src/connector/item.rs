//! Items, and the pages they come in.

use std::path::PathBuf;
use std::str::Utf8Error;

use bytes::Bytes;

use super::skip_report::SkipReports;

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its key; those of a page rise strictly.
    pub key: Bytes,
    /// How many bytes it stands for, if that is known without reading it.
    pub size: Option<u64>,
    /// What a handler gets to see.
    pub payload: Payload,
}

impl Item {
    /// A row, or anything else that is bytes under a key; `number` counts from zero.
    pub fn row(key: impl Into<Bytes>, number: u64, bytes: impl Into<Bytes>) -> Self {
        let payload = Payload::Row { number, bytes: bytes.into() };
        Self { key: key.into(), size: None, payload }
    }

    /// What people call it: a row by its number, counted from one as editors do, and everything
    /// else by its key.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.payload {
            Payload::Row { number, .. } => format!("row {}", number.saturating_add(1)),
            Payload::File(_) | Payload::Object { .. } => {
                self.key.iter().flat_map(|byte| byte.escape_ascii()).map(char::from).collect()
            }
        }
    }

    /// The item as text: a row's bytes, the path of a file, the address of an object.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        match &self.payload {
            Payload::Row { bytes, .. } => str::from_utf8(bytes),
            Payload::File(path) => str::from_utf8(path.as_os_str().as_encoded_bytes()),
            Payload::Object { url, .. } => Ok(url),
        }
    }

    /// About how much memory the item takes.
    #[must_use]
    pub fn footprint(&self) -> usize {
        let payload = match &self.payload {
            Payload::File(path) => path.as_os_str().len(),
            Payload::Row { bytes, .. } => bytes.len(),
            Payload::Object { path, url, .. } => path.len() + url.len(),
        };
        size_of::<Self>() + self.key.len() + payload
    }
}

/// What an item is, for the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A file, by the path of the tree as it was given and the path in it.
    File(PathBuf),
    /// A row of a file.
    Row {
        /// Its number, counted from zero.
        number: u64,
        /// What it says, without its separator.
        bytes: Bytes,
    },
    /// An object.
    Object {
        /// Its whole path in its store.
        path: String,
        /// Its address, as the store was given.
        url: String,
        /// When it was last written, in milliseconds since 1970.
        modified_ms: Option<u64>,
    },
}

/// How much one page may hold, and how much trouble it puts up with. A page holds at least one
/// item even so, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// Most items.
    pub items: usize,
    /// About how many bytes of memory the items may take together.
    pub bytes: usize,
    /// Whether a part of the source that is in trouble is passed over with a skip report, as if it
    /// stayed so. If not, the page fails with what may pass. A connector that cannot tell a part
    /// of its source from all of it fails in any case.
    pub passes_over_trouble: bool,
}

impl PageLimit {
    /// As many items as given, in at most a mebibyte.
    #[must_use]
    pub const fn items(items: usize) -> Self {
        Self { items, bytes: 1 << 20, passes_over_trouble: false }
    }

    /// The same for whoever has tried often enough.
    #[must_use]
    pub const fn passing_over_trouble(self) -> Self {
        Self { passes_over_trouble: true, ..self }
    }

    /// Whether a page that holds this much is full.
    #[must_use]
    pub fn is_reached(self, items: usize, bytes: usize) -> bool {
        items >= self.items.max(1) || bytes >= self.bytes
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self::items(1_000)
    }
}

/// Where in a range to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The last key that needs no more reading; none at the range's start.
    pub after: Option<Vec<u8>>,
    /// The token of the page that ended there, or nothing.
    pub token: Vec<u8>,
}

impl Position {
    /// The start of a range.
    #[must_use]
    pub const fn start() -> Self {
        Self { after: None, token: Vec::new() }
    }

    /// Behind a key, without a token.
    pub fn behind(key: impl Into<Vec<u8>>) -> Self {
        Self { after: Some(key.into()), token: Vec::new() }
    }

    /// The same place, with the token of the page that ended there.
    #[must_use]
    pub(crate) fn with_token(mut self, token: &[u8]) -> Self {
        self.token = token.to_vec();
        self
    }
}

/// Some items in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The items, in key order.
    pub items: Vec<Item>,
    /// Whether nothing of the range is left behind them.
    pub ended: bool,
    /// What makes the next page cheaper, for the position behind the last item. At most a few
    /// dozen bytes.
    pub token: Vec<u8>,
    /// What was met on the way and is no item.
    pub skipped: SkipReports,
}

impl Page {
    /// The page that a limit allows of the items left in a range: at least one, if there is one.
    pub fn take(items: impl IntoIterator<Item = Item>, limit: PageLimit) -> Self {
        let (mut left, mut page, mut bytes) = (items.into_iter().peekable(), Self::default(), 0);
        while (page.items.is_empty() || !limit.is_reached(page.items.len(), bytes))
            && let Some(item) = left.next()
        {
            bytes += item.footprint();
            page.items.push(item);
        }
        page.ended = left.peek().is_none();
        page
    }

    /// The position behind the last item, if there is one.
    #[must_use]
    pub fn next_position(&self) -> Option<Position> {
        let last = self.items.last()?;
        Some(Position::behind(last.key.to_vec()).with_token(&self.token))
    }
}
