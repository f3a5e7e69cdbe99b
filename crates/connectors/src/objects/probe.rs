//! Splitting a store that is too large to list, by probing single keys.

use std::collections::{BTreeMap, VecDeque};

use futures_util::{StreamExt, TryStreamExt, stream};
use shardwright_frontier::{KeyBuf, prefix_successor};
use shardwright_worker::connector::{ConnectorError, Item, Page, PageLimit};

use super::between::between;
use super::walk::list_folder;
use super::{Bucket, ListingOrder};
use crate::remainder::Remainder;
use crate::split::{Piece, nearest_cut};

/// Objects that are listed before anything is guessed. One page of a store.
const LOOK_AHEAD: usize = 1_000;
/// Objects that are listed to find those that globs leave.
const LISTED_MAX: usize = 20 * LOOK_AHEAD;
/// Folders that a split may list.
const FOLDERS_MAX: usize = 16;
/// Bisection steps towards the last key of a range.
const HALVINGS: usize = 8;
/// Keys or folders that the first division of a store may probe.
const FIRST_PROBES_MAX: usize = 128;
const AT_ONCE: usize = 16;
/// Weight of an item in addition to its bytes, so that empty objects count.
const ITEM_WEIGHT: u64 = 256;

pub(super) fn weigh(items: &[Item]) -> Vec<Piece> {
    let piece = |item: &Item| Piece {
        key: item.key.to_vec(),
        weight: item.size.unwrap_or_default().saturating_add(ITEM_WEIGHT),
    };
    items.iter().map(piece).collect()
}

impl Bucket {
    pub(super) async fn propose_split(
        &self,
        remainder: &Remainder,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let seen = self.look_ahead(remainder).await?;
        let Some(first) = seen.items.first().filter(|_| seen.items.len() > 1) else {
            return Ok(None);
        };
        let pieces = weigh(&seen.items);
        if seen.ended {
            let at = nearest_cut(&pieces, fraction);
            return Ok(at.and_then(|at| pieces.into_iter().nth(at)).map(|piece| piece.key));
        }
        let hint = match self.order {
            ListingOrder::Bytes => self.hint_by_interpolation(remainder, &seen, fraction).await?,
            ListingOrder::Folders => {
                let pieces = self.survey(remainder, FOLDERS_MAX).await?;
                let at = nearest_cut(&pieces, fraction);
                at.and_then(|at| pieces.into_iter().nth(at)).map(|piece| piece.key)
            }
        };
        if let Some(hint) = hint
            && let Some(key) = self.first_from(remainder, &hint).await?
            && key.as_slice() > first.key.as_ref()
        {
            return Ok(Some(key));
        }
        // The last key that was listed has others before it.
        Ok(pieces.into_iter().next_back().map(|piece| piece.key))
    }

    /// Pieces from which to cut the store into about `wanted` parts.
    pub(super) async fn first_cuts(
        &self,
        remainder: &Remainder,
        wanted: usize,
    ) -> Result<Vec<Piece>, ConnectorError> {
        let seen = self.look_ahead(remainder).await?;
        if seen.ended || wanted < 2 {
            return Ok(weigh(&seen.items));
        }
        match self.order {
            ListingOrder::Folders => self.survey(remainder, FIRST_PROBES_MAX).await,
            ListingOrder::Bytes => self.sample(remainder, &seen, wanted).await,
        }
    }

    /// The next objects. Where globs leave most objects out, there may be fewer than usual.
    pub(super) async fn look_ahead(&self, remainder: &Remainder) -> Result<Page, ConnectorError> {
        self.read(None, remainder.clone(), PageLimit::items(LOOK_AHEAD), LISTED_MAX).await
    }

    /// The first key of the remainder that is not below `hint`.
    async fn first_from(
        &self,
        remainder: &Remainder,
        hint: &[u8],
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        if !remainder.contains(hint) {
            return Ok(None);
        }
        let page = self.read(None, remainder.from(hint), PageLimit::items(1), LISTED_MAX).await?;
        Ok(page.items.first().map(|item| item.key.to_vec()))
    }

    async fn hint_by_interpolation(
        &self,
        remainder: &Remainder,
        seen: &Page,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let (Some(first), Some(last)) = (seen.items.first(), seen.items.last()) else {
            return Ok(None);
        };
        let top = self.top(remainder, &last.key).await?;
        let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.5 };
        Ok(between(&first.key, &top, fraction).map(String::into_bytes))
    }

    /// A key near the end of the remainder, found by bisection from a key.
    async fn top(&self, remainder: &Remainder, from: &[u8]) -> Result<Vec<u8>, ConnectorError> {
        let mut low = from.to_vec();
        let mut high = self.end_of_shared_start(remainder, from).await?;
        for _ in 0..HALVINGS {
            let Some(point) = between(&low, &high, 0.5) else {
                break;
            };
            match self.first_from(remainder, point.as_bytes()).await? {
                Some(key) => low = key,
                None => high = point.into_bytes(),
            }
        }
        Ok(low)
    }

    /// The end of the longest prefix that all keys after `key` share with it. Bisecting up to the
    /// end of the remainder would spend its steps on leading characters that never differ.
    async fn end_of_shared_start(
        &self,
        remainder: &Remainder,
        key: &[u8],
    ) -> Result<Vec<u8>, ConnectorError> {
        let mut end = remainder.end().to_vec();
        let mut buffer = KeyBuf::new();
        let (mut shared, mut differing) = (0, key.len() + 1);
        while differing - shared > 1 {
            let length = shared.midpoint(differing);
            let start = key.get(..length).unwrap_or_default();
            let after = prefix_successor(start, &mut buffer).unwrap_or_default().to_vec();
            if self.first_from(remainder, &after).await?.is_some() {
                differing = length;
            } else {
                shared = length;
                if remainder.is_below_end(&after) && !after.is_empty() {
                    end = after;
                }
            }
        }
        Ok(end)
    }

    /// Samples keys over the remainder, as pieces of equal weight.
    async fn sample(
        &self,
        remainder: &Remainder,
        seen: &Page,
        wanted: usize,
    ) -> Result<Vec<Piece>, ConnectorError> {
        let (Some(first), Some(last)) = (seen.items.first(), seen.items.last()) else {
            return Ok(Vec::new());
        };
        let top = self.top(remainder, &last.key).await?;
        let probes = wanted.saturating_mul(2).min(FIRST_PROBES_MAX);
        let points = (1..probes).filter_map(|at| {
            between(&first.key, &top, at as f64 / probes as f64).map(String::into_bytes)
        });
        let found: Vec<Option<Vec<u8>>> = stream::iter(points.collect::<Vec<_>>())
            .map(|point| async move { self.first_from(remainder, &point).await })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut keys: Vec<Vec<u8>> = found.into_iter().flatten().collect();
        keys.push(first.key.to_vec());
        keys.sort_unstable();
        keys.dedup();
        Ok(keys.into_iter().map(|key| Piece { key, weight: 1 }).collect())
    }

    /// Lists up to `folders_max` folders, those nearest to the root first. Returns objects and
    /// unopened folders. The weight of an unopened folder is a guess.
    async fn survey(
        &self,
        remainder: &Remainder,
        folders_max: usize,
    ) -> Result<Vec<Piece>, ConnectorError> {
        let mut found: BTreeMap<String, Option<u64>> = BTreeMap::new();
        let mut unopened = VecDeque::from([String::new()]);
        let mut opened: u64 = 0;
        while opened < folders_max as u64
            && let Some(folder) = unopened.pop_front()
        {
            found.remove(&folder);
            opened += 1;
            // A vanished folder has no weight.
            let listed = match list_folder(self, &folder, remainder).await {
                Err(object_store::Error::NotFound { .. }) => Vec::new(),
                result => result.map_err(self.failed("list"))?,
            };
            for entry in listed {
                if entry.size.is_none() {
                    unopened.push_back(entry.key.clone());
                }
                found.insert(entry.key, entry.size);
            }
        }
        let weight = |size: u64| size.saturating_add(ITEM_WEIGHT);
        let known =
            found.values().flatten().fold(0, |sum: u64, size| sum.saturating_add(weight(*size)));
        let guess = (known / opened.max(1)).max(1);
        let piece = |(key, size): (String, Option<u64>)| Piece {
            key: key.into_bytes(),
            weight: size.map_or(guess, weight),
        };
        Ok(found.into_iter().map(piece).collect())
    }
}
