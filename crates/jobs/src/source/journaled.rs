//! A source that writes skipped entries to the journal.

use std::sync::Arc;

use shardwright_connectors::io_error;
use shardwright_contracts::RunId;
use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, SourceEstimate,
    SourceFingerprint,
};

use super::AnyConnector;
use crate::journal::ProcessJournal;
use crate::output::Output;

/// A source that returns a page only after its skipped entries are in the journal.
pub struct JournaledSource {
    /// The source.
    pub source: Arc<AnyConnector>,
    /// The journal of this process.
    pub journal: Arc<ProcessJournal>,
    /// Where journals are published.
    pub output: Output,
    /// The run.
    pub run: RunId,
}

impl Connector for JournaledSource {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let page = self.source.page(range, from, limit).await?;
        let unwritten = io_error("record skipped entries in", self.journal.path());
        if self.journal.record_skipped(&page.skipped).map_err(unwritten)? {
            // Published at once, in case this machine is lost.
            let published = self.output.publish_journals(self.run).await;
            published.map_err(|error| {
                let source = error.context("skipped entries cannot be published").into();
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
    use crate::description::Results;
    use crate::journal::tests::make_too_deep;

    #[tokio::test]
    async fn skipped_entries_are_published_before_their_page() {
        let (source, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make_too_deep(source.path());
        let tree = TreeConnector::open(source.path()).await.unwrap();
        let results = Results::Objects { url: "memory:///results".into() };
        let name = RunName::new("it").unwrap();
        let output = Output::of(&results, state.path(), name).await.unwrap();
        let run = RunId::from_raw(7);
        let in_the_way = output.journal_folder(run);
        let journal = ProcessJournal::new(in_the_way.clone(), Arc::new(()));
        let source = Arc::new(AnyConnector::Tree(tree));
        let journaled = JournaledSource { source, journal, output: output.clone(), run };
        let ranges = journaled.initial_ranges(1).await.unwrap();
        let page =
            async || journaled.page(&ranges[0], &Position::start(), PageLimit::default()).await;
        std::fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
        std::fs::write(&in_the_way, "").unwrap();
        assert!(page().await.is_err());
        assert!(output.journals(run).await.unwrap().is_empty());
        std::fs::remove_file(&in_the_way).unwrap();
        assert!(page().await.is_ok());
        assert_eq!(output.journals(run).await.unwrap().len(), 1);
    }
}
