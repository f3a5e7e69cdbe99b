//! A source that keeps books.

use std::sync::Arc;

use shardwright_connectors::io_error;
use shardwright_contracts::RunId;
use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, SourceEstimate,
    SourceFingerprint,
};

use super::AnyConnector;
use crate::books::Books;
use crate::output::Output;

/// A source of which nobody gets a page before what was passed over on it is on record.
pub struct Booked {
    /// The source.
    pub source: Arc<AnyConnector>,
    /// The journal of this process.
    pub books: Arc<Books>,
    /// Where journals are handed in.
    pub output: Output,
    /// The run.
    pub run: RunId,
}

impl Connector for Booked {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let page = self.source.page(range, from, limit).await?;
        let unwritten = io_error("write down what could not be read, in", self.books.path());
        if self.books.pass_over(&page.skipped).map_err(unwritten)? {
            // Others have to find it, whatever becomes of this machine.
            let handed_in = self.output.hand_in_books(self.run).await;
            handed_in.map_err(|error| {
                let source = error.context("others do not learn what it is").into();
                ConnectorError::Other { transient: true, source }
            })?;
        }
        Ok(page)
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
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

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        self.source.fingerprint().await
    }
}

#[cfg(test)]
mod tests {
    use shardwright_connectors::TreeConnector;
    use shardwright_coordination::RunName;

    use super::*;
    use crate::books::tests::{Nobody, make_too_deep};
    use crate::description::Results;

    #[tokio::test]
    async fn nobody_gets_a_page_before_what_is_missing_of_it_is_on_record_for_all() {
        let (source, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make_too_deep(source.path());
        let tree = TreeConnector::open(source.path()).await.unwrap();
        let results = Results::Objects { url: "memory:///results".to_owned() };
        let name = RunName::new("it").unwrap();
        let output = Output::of(&results, state.path(), name).await.unwrap();
        let run = RunId::from_raw(7);
        let in_the_way = output.books_folder(run);
        let books = Books::new(in_the_way.clone(), Arc::new(Nobody));
        let source = Arc::new(AnyConnector::Tree(tree));
        let booked = Booked { source, books, output: output.clone(), run };
        let ranges = booked.initial_ranges(1).await.unwrap();
        let page = async || booked.page(&ranges[0], &Position::start(), PageLimit::default()).await;
        std::fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
        std::fs::write(&in_the_way, "").unwrap();
        assert!(page().await.is_err());
        assert!(output.books(run).await.unwrap().is_empty());
        std::fs::remove_file(&in_the_way).unwrap();
        assert!(page().await.is_ok());
        assert_eq!(output.books(run).await.unwrap().len(), 1);
    }
}
