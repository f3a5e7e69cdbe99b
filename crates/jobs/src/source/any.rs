//! The connector of a run, by the kind of its source.

use shardwright_connectors::{LineConnector, TreeConnector};
use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, SharedConnector,
    SourceEstimate, SourceFingerprint,
};

use crate::objects::ObjectConnector;

/// The connector, by the kind of source.
pub enum AnyConnector {
    /// The files of a folder.
    Tree(TreeConnector),
    /// The rows of a file.
    Lines(LineConnector),
    /// The objects of a store.
    Objects(ObjectConnector),
    /// A connector in the code of a program.
    Library(SharedConnector),
}

/// Evaluates an expression with the connector of any variant.
macro_rules! with {
    ($any:ident, $connector:ident => $work:expr) => {
        match $any {
            AnyConnector::Tree($connector) => $work,
            AnyConnector::Lines($connector) => $work,
            AnyConnector::Objects($connector) => $work,
            AnyConnector::Library($connector) => $work,
        }
    };
}

impl Connector for AnyConnector {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        with!(self, connector => connector.page(range, from, limit).await)
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        with!(self, connector => connector.estimate(range, after).await)
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        with!(self, connector => connector.propose_split(range, after, fraction).await)
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        with!(self, connector => connector.initial_ranges(wanted).await)
    }

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        with!(self, connector => connector.fingerprint().await)
    }
}
