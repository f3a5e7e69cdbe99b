//! Dividing a range of which nothing is known but its bytes.

use shardwright_frontier::{KeyBuf, byte_midpoint};

use super::{Connector, ConnectorError, KeyRange, PageLimit, Position};

/// How often the upper half of what is left is looked into before it is taken for empty. Each look
/// halves it.
const LOOKS: usize = 64;

/// The first key in the upper half of the keys that could lie between what is read next and the
/// end; in a smaller part at the end's side if there is none.
pub(super) async fn split_by_bytes<C: Connector + ?Sized>(
    connector: &C,
    range: &KeyRange,
    after: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, ConnectorError> {
    let from = after.map_or_else(Position::start, Position::behind);
    let first = connector.page(range, &from, PageLimit::items(2)).await?;
    // The first key is kept in any case, and so from the second on it can be divided.
    let Some(second) = first.items.get(1).map(|item| item.key.to_vec()) else { return Ok(None) };
    let mut end = range.end.clone();
    for _ in 0..LOOKS {
        let Some(middle) = midpoint(&second, &end) else { break };
        let upper = KeyRange::new(middle.clone(), range.end.clone());
        let found = connector.page(&upper, &Position::start(), PageLimit::items(1)).await?;
        match found.items.first() {
            Some(item) => return Ok(Some(item.key.to_vec())),
            None => end = middle,
        }
    }
    Ok(Some(second))
}

fn midpoint(start: &[u8], end: &[u8]) -> Option<Vec<u8>> {
    byte_midpoint(start, end, &mut KeyBuf::new()).map(<[u8]>::to_vec)
}
