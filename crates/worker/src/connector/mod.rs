//! Sources of work.
//!
//! A [`Connector`] enumerates a source (the files of a tree, the lines of a file, the objects of a
//! bucket) as items under keys that sort byte by byte. A run divides the keys into ranges. A worker
//! reads a range in pages, starting at its cursor. A connector knows nothing of leases, and any
//! page can be read without state of earlier pages.
//!
//! Connectors for directory trees, files of rows and object stores are in `shardwright-connectors`.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod item;
mod range;
mod skip_report;
mod source;

use std::future::{Future, ready};
use std::sync::Arc;

pub use crate::erased::SharedConnector;
pub use error::ConnectorError;
pub use item::{Item, Page, PageLimit, Payload, Position};
pub use range::KeyRange;
pub use skip_report::{SkipReason, SkipReport, SkipReports};
pub use source::{Quantity, SourceEstimate, SourceFingerprint};

/// A source that can be enumerated in key order, within any range and from any key.
///
/// The contract, which the feature `conformance` tests:
///
/// - Keys rise strictly, lie in the requested range, and have 1 to 4096 bytes.
/// - While the source does not change, pages of any size, from any position, over any division of a
///   range return the same keys.
/// - A proposed split leaves at least one item on each side.
///
/// Positions and bounds may be any bytes, not only keys of the source. A worker checks each page
/// against the requested range, and stops with an error if the contract is broken.
pub trait Connector: Send + Sync + 'static {
    /// Returns the items of `range` after `from`, in key order, as many as `limit` allows.
    ///
    /// Only the last page of a range may be empty. The token of a page is passed back with the
    /// position after its last item. With another token, or without one, the result must be the
    /// same.
    fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> impl Future<Output = Result<Page, ConnectorError>> + Send;

    /// Estimates what is left of `range` after `after`. Must be cheap, and may be rough.
    /// By default nothing is known.
    fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> impl Future<Output = Result<SourceEstimate, ConnectorError>> + Send {
        let _ = (range, after);
        ready(Ok(SourceEstimate { items: Quantity::Unknown, bytes: Quantity::Unknown }))
    }

    /// Proposes a key to split the rest of `range` after `after`. At least one item must be below
    /// it and one at or above it. It should be near `fraction` of the rest by bytes, or by items if
    /// sizes are unknown. None if the rest cannot be split.
    ///
    /// By default the first key in the upper half of the possible keys. A proposal that is not
    /// strictly inside of the range is an error for a new run. A running one ignores it, as well as
    /// a proposal that is not behind `after`.
    fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, ConnectorError>> + Send {
        let _ = fraction;
        range::split_by_bytes(self, range, after)
    }

    /// Returns the ranges for the first shards of a run: at most `wanted`, of similar weight. Each
    /// starts where the one before ends. Together they must hold every key that the source can
    /// have.
    ///
    /// By default all keys below 256 bytes of `0xff` are bisected by
    /// [`propose_split`](Self::propose_split), and a source with a key above is rejected. Override
    /// it where pages are expensive.
    fn initial_ranges(
        &self,
        wanted: usize,
    ) -> impl Future<Output = Result<Vec<KeyRange>, ConnectorError>> + Send {
        range::ranges_by_splits(self, wanted)
    }

    /// Identifies the source, so that a run is not resumed on another one. By default all
    /// connectors of one type are the same source.
    fn fingerprint(
        &self,
    ) -> impl Future<Output = Result<SourceFingerprint, ConnectorError>> + Send {
        let identity = std::any::type_name::<Self>().to_owned();
        ready(Ok(SourceFingerprint { identity, listed_at_ms: None }))
    }
}

/// A shared source.
impl<C: Connector> Connector for Arc<C> {
    fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> impl Future<Output = Result<Page, ConnectorError>> + Send {
        C::page(self, range, from, limit)
    }

    fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> impl Future<Output = Result<SourceEstimate, ConnectorError>> + Send {
        C::estimate(self, range, after)
    }

    fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, ConnectorError>> + Send {
        C::propose_split(self, range, after, fraction)
    }

    fn initial_ranges(
        &self,
        wanted: usize,
    ) -> impl Future<Output = Result<Vec<KeyRange>, ConnectorError>> + Send {
        C::initial_ranges(self, wanted)
    }

    fn fingerprint(
        &self,
    ) -> impl Future<Output = Result<SourceFingerprint, ConnectorError>> + Send {
        C::fingerprint(self)
    }
}
