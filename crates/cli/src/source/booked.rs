//! A source that keeps books.

use std::sync::Arc;

use shardwright_contracts::RunId;
use shardwright_worker::connector::{
    Connector, ConnectorError, Estimate, Fingerprint, KeyRange, Page, PageLimit, Position,
};

use super::AnyConnector;
use crate::books::Books;
use crate::output::Output;

/// A source of which nobody gets a page before what was passed over on it is on record.
pub(crate) struct Booked {
    pub(crate) source: Arc<AnyConnector>,
    pub(crate) books: Arc<Books>,
    pub(crate) output: Output,
    pub(crate) run: RunId,
}

impl Connector for Booked {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let page = self.source.page(range, from, limit).await?;
        let unwritten = |source| {
            let path = self.books.path().to_owned();
            ConnectorError::Io { doing: "write down what could not be read, in", path, source }
        };
        if self.books.pass_over(&page.notices).map_err(unwritten)? {
            // Others have to find it, whatever becomes of this machine.
            let handed_in = self.output.hand_in_books(self.run).await;
            let lost = |error: anyhow::Error| error.context("others do not learn what it is");
            let lost =
                |error| ConnectorError::Other { transient: true, source: lost(error).into() };
            handed_in.map_err(lost)?;
        }
        Ok(page)
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<Estimate, ConnectorError> {
        self.source.estimate(range, after).await
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        self.source.propose_split(range, after, fraction).await
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        self.source.initial_ranges(wanted).await
    }

    async fn fingerprint(&self) -> Result<Fingerprint, ConnectorError> {
        self.source.fingerprint().await
    }
}
