//! Keys, cursors and ranges as a story writes them.

use shardwright_contracts::{CursorUpdate, InitialShardInput, ShardId, ShardSpecRef, SplitChild};

/// Why a word is not what it should be.
pub(super) type Misspelt = String;

/// Reads `abc` as itself, `""` as the empty key and `ab*3` as `ababab`.
pub(super) fn key(text: &str) -> Result<Vec<u8>, Misspelt> {
    let text = if text == r#""""# { "" } else { text };
    match text.split_once('*') {
        Some((unit, count)) => Ok(unit.repeat(number(count)? as usize).into_bytes()),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Reads a decimal number, or a hexadecimal one that begins with `0x`.
pub(super) fn number(text: &str) -> Result<u64, Misspelt> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}

/// A cursor: `none`, `key` or `key:token`.
#[derive(Clone, Debug, Default)]
pub(super) struct CursorText {
    last_key: Option<Vec<u8>>,
    token: Option<Vec<u8>>,
}

impl CursorText {
    pub(super) fn parse(text: &str) -> Result<Self, Misspelt> {
        let (last_key, token) = match text.split_once(':') {
            Some((last_key, token)) => (last_key, Some(key(token)?)),
            None => (text, None),
        };
        let last_key = if last_key == "none" { None } else { Some(key(last_key)?) };
        Ok(Self { last_key, token })
    }

    pub(super) fn as_update(&self) -> CursorUpdate<'_> {
        CursorUpdate::new(self.last_key.as_deref(), self.token.as_deref())
    }
}

/// A range: `start..end`, then perhaps `@cursor`, then perhaps `+metadata`; an id and `=` may
/// come first.
#[derive(Clone, Debug)]
pub(super) struct RangeText {
    id: Option<u64>,
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
    cursor: CursorText,
    metadata: Vec<u8>,
}

impl RangeText {
    pub(super) fn parse(text: &str) -> Result<Self, Misspelt> {
        let (id, text) = match text.split_once('=') {
            Some((id, rest)) => (Some(number(id)?), rest),
            None => (None, text),
        };
        let (text, metadata) = text.split_once('+').unwrap_or((text, ""));
        let (text, cursor) = text.split_once('@').unwrap_or((text, "none"));
        let (start, end) =
            text.split_once("..").ok_or_else(|| format!("`{text}` is not a range"))?;
        let (start, end, metadata) = (key(start)?, key(end)?, key(metadata)?);
        Ok(Self { id, start, end, cursor: CursorText::parse(cursor)?, metadata })
    }

    pub(super) fn spec(&self) -> ShardSpecRef<'_> {
        ShardSpecRef::new(&self.start, &self.end, &self.metadata)
    }

    pub(super) fn cursor(&self) -> CursorUpdate<'_> {
        self.cursor.as_update()
    }

    fn input(&self, place: u64) -> InitialShardInput<'_> {
        let shard = ShardId::from_raw(self.id.unwrap_or(place));
        InitialShardInput { shard, spec: self.spec(), cursor: self.cursor() }
    }

    fn child(&self) -> SplitChild<'_> {
        SplitChild { spec: self.spec(), cursor: self.cursor() }
    }
}

/// Reads `pieces:3` as three adjacent ranges, and any other word as one range.
pub(super) fn ranges(text: &str) -> Result<Vec<RangeText>, Misspelt> {
    let Some(count) = text.strip_prefix("pieces:") else {
        return Ok(vec![RangeText::parse(text)?]);
    };
    (0..number(count)?).map(|n| RangeText::parse(&format!("k{n:05}..k{:05}", n + 1))).collect()
}

/// Ranges as a manifest: one without an id gets its place in the list.
pub(super) fn manifest(ranges: &[RangeText]) -> Vec<InitialShardInput<'_>> {
    ranges.iter().zip(0..).map(|(range, place)| range.input(place)).collect()
}

/// Ranges as the children of a split.
pub(super) fn children(ranges: &[RangeText]) -> Vec<SplitChild<'_>> {
    ranges.iter().map(RangeText::child).collect()
}
