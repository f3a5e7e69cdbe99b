//! Connectors, handlers and sinks without their types, so that the loop is compiled once.
//!
//! Users implement the traits with `async fn`; a worker holds trait objects of these companions.
//! The loop boxes one future per page, batch and sync, none per item.

use std::io;
use std::sync::Arc;

use shardwright_contracts::{BoxFuture, FenceEpoch, RunId, ShardKey};

use crate::attempt::{Tried, Try, try_once};
use crate::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Position, SourceEstimate,
    SourceFingerprint,
};
use crate::extent::Extent;
use crate::handler::{Assignment, Handler, ItemFailure, Outcome};
use crate::sink::{Segment, Sink, SinkError};

/// A [`Connector`] of any type.
pub(crate) trait DynConnector: Send + Sync {
    /// Reads a page and checks it. The future owns its arguments, so that it can run beside the
    /// work.
    fn page(
        &self,
        range: KeyRange,
        from: Position,
        limit: PageLimit,
    ) -> BoxFuture<'_, Result<Page, ConnectorError>>;

    fn estimate<'a>(
        &'a self,
        range: &'a KeyRange,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<SourceEstimate, ConnectorError>>;

    fn propose_split<'a>(
        &'a self,
        range: &'a KeyRange,
        after: Option<&'a [u8]>,
        fraction: f64,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, ConnectorError>>;

    fn initial_ranges(&self, wanted: usize)
    -> BoxFuture<'_, Result<Vec<KeyRange>, ConnectorError>>;

    fn fingerprint(&self) -> BoxFuture<'_, Result<SourceFingerprint, ConnectorError>>;
}

impl<C: Connector> DynConnector for C {
    fn page(
        &self,
        range: KeyRange,
        from: Position,
        limit: PageLimit,
    ) -> BoxFuture<'_, Result<Page, ConnectorError>> {
        Box::pin(async move {
            let page = Connector::page(self, &range, &from, limit).await?;
            page.check(&range, &from)?;
            Ok(page)
        })
    }

    fn estimate<'a>(
        &'a self,
        range: &'a KeyRange,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<SourceEstimate, ConnectorError>> {
        Box::pin(Connector::estimate(self, range, after))
    }

    fn propose_split<'a>(
        &'a self,
        range: &'a KeyRange,
        after: Option<&'a [u8]>,
        fraction: f64,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, ConnectorError>> {
        Box::pin(Connector::propose_split(self, range, after, fraction))
    }

    fn initial_ranges(
        &self,
        wanted: usize,
    ) -> BoxFuture<'_, Result<Vec<KeyRange>, ConnectorError>> {
        Box::pin(Connector::initial_ranges(self, wanted))
    }

    fn fingerprint(&self) -> BoxFuture<'_, Result<SourceFingerprint, ConnectorError>> {
        Box::pin(Connector::fingerprint(self))
    }
}

/// A [`Connector`] whose type is erased. Clones share it.
#[derive(Clone)]
pub struct SharedConnector(Arc<dyn DynConnector>);

impl SharedConnector {
    /// Erases the type of a connector.
    pub fn new(connector: impl Connector) -> Self {
        Self(Arc::new(connector))
    }
}

impl Connector for SharedConnector {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        self.0.page(range.clone(), from.clone(), limit).await
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        self.0.estimate(range, after).await
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        self.0.propose_split(range, after, fraction).await
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        self.0.initial_ranges(wanted).await
    }

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        self.0.fingerprint().await
    }
}

/// A [`Handler`] of any type.
pub(crate) trait DynHandler: Send + Sync {
    fn batch_size(&self) -> usize;

    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome;

    /// Tries a batch once.
    fn try_once(&self, batch: Try) -> BoxFuture<'_, Vec<Tried>>;

    fn committed(&self, assignment: &Assignment, key: &[u8]);

    fn divided(&self, assignment: &Assignment, end: &[u8]);

    fn close(&self) -> BoxFuture<'_, ()>;
}

impl<H: Handler> DynHandler for H {
    fn batch_size(&self) -> usize {
        Handler::batch_size(self)
    }

    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        Handler::failure_record(self, item, failure)
    }

    fn try_once(&self, batch: Try) -> BoxFuture<'_, Vec<Tried>> {
        Box::pin(try_once(self, batch))
    }

    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        Handler::committed(self, assignment, key);
    }

    fn divided(&self, assignment: &Assignment, end: &[u8]) {
        Handler::divided(self, assignment, end);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(Handler::close(self))
    }
}

/// A [`Sink`] of any type, as far as a worker uses one.
pub(crate) trait DynSink: Send + Sync {
    fn begin(
        &self,
        shard: ShardKey,
        fence: FenceEpoch,
    ) -> BoxFuture<'_, Result<Box<dyn DynSegment>, SinkError>>;

    fn read<'a>(
        &'a self,
        run: RunId,
        extent: Extent,
        piece: &'a mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> BoxFuture<'a, Result<(), SinkError>>;

    fn is_elsewhere(&self, run: RunId, extent: &Extent) -> bool;
}

impl<K: Sink> DynSink for K {
    fn begin(
        &self,
        shard: ShardKey,
        fence: FenceEpoch,
    ) -> BoxFuture<'_, Result<Box<dyn DynSegment>, SinkError>> {
        Box::pin(async move {
            let segment = Sink::begin(self, shard, fence).await?;
            Ok(Box::new(segment) as Box<dyn DynSegment>)
        })
    }

    fn read<'a>(
        &'a self,
        run: RunId,
        extent: Extent,
        piece: &'a mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(Sink::read(self, run, extent, piece))
    }

    fn is_elsewhere(&self, run: RunId, extent: &Extent) -> bool {
        Sink::is_elsewhere(self, run, extent)
    }
}

/// A [`Segment`] of any type.
pub(crate) trait DynSegment: Send {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError>;

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError>;

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Extent>, SinkError>>;
}

impl<S: Segment> DynSegment for S {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
        Segment::append(self, result)
    }

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
        Segment::append_copied(self, bytes, items)
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Extent>, SinkError>> {
        Box::pin(Segment::sync(self))
    }
}
