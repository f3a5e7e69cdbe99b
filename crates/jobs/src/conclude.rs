//! Writing the result file and the receipt of a run.

use std::path::Path;

use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunManagement as _, RunName, ShardRecord, ShardStatus};

use crate::Coordinator;
use crate::TENANT;
use crate::begin::Found;
use crate::description::Description;
use crate::journal::Tally;
use crate::output::{Built, Output, shown};
use crate::receipt::Receipt;

/// A run whose results are to be written.
pub struct Conclusion<'a> {
    /// The coordinator of the run.
    pub coordinator: &'a Coordinator,
    /// Its name.
    pub name: RunName,
    /// Its id.
    pub run: RunId,
    /// Its description.
    pub description: &'a Description,
    /// The location of its results.
    pub output: &'a Output,
}

impl Conclusion<'_> {
    /// Writes the result file and the receipt, unless the location belongs to another run by now.
    pub async fn write(&self) -> anyhow::Result<Receipt> {
        let Self { coordinator, run, output, .. } = self;
        output.ensure_current(*run).await?;
        loop {
            let shards = coordinator.inspect_shards(TENANT, *run).await?;
            let built = output.build(*run, &shards).await?;
            if let Some(receipt) = self.publish(&shards, built).await? {
                return Ok(receipt);
            }
        }
    }

    /// Publishes what was built from `shards`. None if the shards have changed meanwhile.
    async fn publish(
        &self,
        shards: &[ShardRecord],
        built: Built,
    ) -> anyhow::Result<Option<Receipt>> {
        let Self { coordinator, name, run, description, output } = self;
        let _alone = output.lock().await?;
        output.ensure_current(*run).await?;
        // Building takes time. Journals that were published meanwhile belong into the receipt: it
        // may replace one that has them.
        let record = coordinator.get_run(TENANT, *run).await?;
        let mut tally = Tally::default();
        output.journals(*run).await?.iter().for_each(|journal| tally.add(journal));
        let now = coordinator.inspect_shards(TENANT, *run).await?;
        // Parked items may have been done meanwhile. Then a later result file may be published
        // already, which must not be replaced by an older one. If a shard is active, its worker
        // publishes later.
        if is_settled(&now) && now != shards {
            return Ok(None);
        }
        let receipt = Receipt::new(*name, &record, description, shards, &built, tally)?;
        output.publish(*run, built, serde_json::to_vec_pretty(&receipt)?).await?;
        Ok(Some(receipt))
    }
}

/// Returns the receipt of a run that has nothing left to do. Writes the results and the receipt
/// first, if the process that finished the run was killed before it did. None if this machine does
/// not reach the results.
pub async fn concluded(
    coordinator: &Coordinator,
    state: &Path,
    found: &Found,
) -> anyhow::Result<Option<Receipt>> {
    let Found { name, run, description } = found;
    let output = Output::of(&description.results, state, *name).await?.for_mode(description.mode);
    if !output.is_reserved(*run).await? || !output.is_owner(*run).await? {
        return Ok(None);
    }
    if let Some(receipt) = output.receipt().await?.filter(|receipt| receipt.run == shown(*run)) {
        return Ok(Some(receipt));
    }
    let conclusion =
        Conclusion { coordinator, name: *name, run: *run, description, output: &output };
    conclusion.write().await.map(Some)
}

/// Whether no shard is active.
pub fn is_settled(shards: &[ShardRecord]) -> bool {
    shards.iter().all(|shard| shard.head.status != ShardStatus::Active)
}

#[cfg(test)]
mod tests {
    use shardwright_coordination::RunStatus;

    use super::*;
    use crate::begin::{Begun, end};
    use crate::output::{RESULTS, Replaced};
    use crate::testing::Bench;

    fn conclusion<'a>(bench: &'a Bench, begun: &'a Begun) -> Conclusion<'a> {
        let Begun { name, run, description, output, .. } = begun;
        Conclusion { coordinator: &bench.coordinator, name: *name, run: *run, description, output }
    }

    #[tokio::test]
    async fn a_run_that_was_replaced_writes_no_results() {
        let bench = Bench::new().await;
        let old = bench.begin(&bench.options("cat")).await.unwrap();
        conclusion(&bench, &old).write().await.unwrap();
        let new = bench.begin(&bench.fresh("cat")).await.unwrap();
        let results = new.output.folder().join(RESULTS);
        std::fs::write(&results, "newer").unwrap();
        let wrote = conclusion(&bench, &old).write().await;
        assert!(wrote.is_err_and(|error| error.is::<Replaced>()));
        assert_eq!(std::fs::read(&results).unwrap(), b"newer");
        let record = bench.coordinator.get_run(TENANT, old.run).await.unwrap();
        assert_eq!(record.status, RunStatus::Cancelled);
    }

    #[tokio::test]
    async fn without_a_marker_no_results_are_written() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        std::fs::remove_file(begun.output.folder().join("run.json")).unwrap();
        let wrote = conclusion(&bench, &begun).write().await;
        assert!(wrote.is_err_and(|error| !error.is::<Replaced>()));
        assert!(!begun.output.folder().join(RESULTS).exists());
    }

    #[tokio::test]
    async fn journals_published_during_a_build_are_in_the_receipt() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let (run, output) = (begun.run, &begun.output);
        let shards = bench.coordinator.inspect_shards(TENANT, run).await.unwrap();
        let built = output.build(run, &shards).await.unwrap();
        let journal = output.journal_folder(run).join("books-of-another.jsonl");
        std::fs::write(journal, "{\"kind\":\"refused\"}\n").unwrap();
        end(&bench.coordinator, run).await.unwrap();
        let receipt = conclusion(&bench, &begun).publish(&shards, built).await.unwrap().unwrap();
        assert_eq!((receipt.stale_writes_refused, receipt.ended_at_ms.is_some()), (1, true));
    }
}
