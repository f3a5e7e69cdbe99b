//! Keys, cursors and ranges as a script writes them.

use shardwright_contracts::{CursorInput, ShardId, ShardInput, SpecInput};

/// Why a word of a script is invalid.
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

/// Reads a cursor: `none`, `key` or `key:token`.
pub(super) fn cursor(text: &str) -> Result<CursorInput<Vec<u8>>, Misspelt> {
    let (last_key, token) = match text.split_once(':') {
        Some((last_key, token)) => (last_key, Some(key(token)?)),
        None => (text, None),
    };
    let last_key = if last_key == "none" { None } else { Some(key(last_key)?) };
    Ok(CursorInput::new(last_key, token))
}

/// Reads a range: `start..end`, optionally `@cursor`, optionally `+metadata`. An id and `=` may
/// come first; a range without them gets `default_id`.
pub(super) fn range(text: &str, default_id: u64) -> Result<ShardInput<Vec<u8>>, Misspelt> {
    let (id, text) = match text.split_once('=') {
        Some((id, rest)) => (number(id)?, rest),
        None => (default_id, text),
    };
    let (text, metadata) = text.split_once('+').unwrap_or((text, ""));
    let (text, progress) = text.split_once('@').unwrap_or((text, "none"));
    let (start, end) = text.split_once("..").ok_or_else(|| format!("`{text}` is not a range"))?;
    let spec = SpecInput::new(key(start)?, key(end)?, key(metadata)?);
    Ok(ShardInput { shard: ShardId::from_raw(id), spec, cursor: cursor(progress)? })
}

/// Expands `pieces:3` to three adjacent ranges. Any other word stands for itself.
pub(super) fn pieces(text: &str) -> Result<Vec<String>, Misspelt> {
    let Some(count) = text.strip_prefix("pieces:") else { return Ok(vec![text.to_owned()]) };
    Ok((0..number(count)?).map(|n| format!("k{n:05}..k{:05}", n + 1)).collect())
}
