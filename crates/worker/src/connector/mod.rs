//! Sources of work: whatever can be enumerated in key order.
//!
//! A [`Connector`] turns something outside (a tree of files, the lines of a file, the objects of a
//! bucket) into items under keys that sort byte by byte. A run cuts those keys into ranges, and a
//! worker reads a range in pages from wherever its cursor stands. A connector says nothing of
//! leases, and keeps nothing that a page could not be read without.
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

/// A source that can be enumerated in key order within any range, from any key on.
///
/// What every implementation promises, and `conformance` (a feature) tries out:
///
/// - Keys rise strictly and lie in the range; each is at most as long as a key may be.
/// - Pages of any size, from any position, over any division of a range give the same keys, as
///   long as the source itself does not change.
/// - A proposed split leaves something on both sides.
///
/// Positions and bounds may be any bytes: they need not be keys of anything.
pub trait Connector: Send + Sync + 'static {
    /// The items of `range` behind `from`, in key order, as many as `limit` allows.
    ///
    /// Only a page that ends the range may be empty. Its token belongs to the position behind its
    /// last item and makes the next page cheaper; without it, or with a foreign one, the result
    /// is the same.
    fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> impl Future<Output = Result<Page, ConnectorError>> + Send;

    /// What is left of `range` behind `after`: cheap, and rough where it has to be. Unless a
    /// connector can tell, nobody knows.
    fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> impl Future<Output = Result<SourceEstimate, ConnectorError>> + Send {
        let _ = (range, after);
        ready(Ok(SourceEstimate { items: Quantity::Unknown, bytes: Quantity::Unknown }))
    }

    /// A key of the range behind `after` with at least one item before it and one at or behind
    /// it, near `fraction` of what is left by weight (bytes, where they are known). None if what
    /// is left cannot be divided. Unless a connector knows better, the first key in the upper
    /// half of all bytes that keys could be made of.
    fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, ConnectorError>> + Send {
        let _ = fraction;
        range::split_by_bytes(self, range, after)
    }

    /// Ranges for a new run: about `wanted`, never more, of similar weight, each beginning where
    /// the one before it ends, together holding every key the source can ever have.
    ///
    /// By default the space of all keys below 256 bytes of `0xff` is bisected by
    /// [`propose_split`](Self::propose_split). Override it where pages are expensive.
    fn initial_ranges(
        &self,
        wanted: usize,
    ) -> impl Future<Output = Result<Vec<KeyRange>, ConnectorError>> + Send {
        range::ranges_by_splits(self, wanted)
    }

    /// What tells this source from another, so that a run is not resumed on a changed one. Unless
    /// a connector says more, all of its type are the same.
    fn fingerprint(
        &self,
    ) -> impl Future<Output = Result<SourceFingerprint, ConnectorError>> + Send {
        let identity = std::any::type_name::<Self>().to_owned();
        ready(Ok(SourceFingerprint { identity, listed_at_ms: None }))
    }
}

/// A source that several look at.
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
