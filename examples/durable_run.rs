//! Twenty-four hundred numbers, each worked on by one process at a time, however often it is killed.
//!
//! Run it, kill it, run it again, in as many terminals as you like:
//! `cargo run --example durable_run -- /tmp/numbers`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::path::{Path, PathBuf};

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardSpecRef, TenantId,
    WorkerId,
};
use shardwright_coordination::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _, ClaimError,
    RestoredShardState, RunConfig, RunTransitionError,
};
use shardwright_engine::FileCoordinator;

const TENANT: TenantId = TenantId::from_bytes([0; 32]);
const NUMBERS: u32 = 2_400;
const SHARDS: u32 = 12;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "numbers".into());
    println!("{}", work(&PathBuf::from(folder)).await?);
    Ok(())
}

async fn work(folder: &Path) -> anyhow::Result<String> {
    let coordinator = FileCoordinator::in_folder(folder.join("state")).await?;
    fs::create_dir_all(folder.join("results"))?;
    let (run, worker) = (RunId::from_raw(1), WorkerId::from_raw(std::process::id().into()));
    // Whoever comes first makes the run; for all others it is there.
    let config = RunConfig::try_new(CursorSemantics::Completed, 10_000, None)?;
    let bounds: Vec<String> = (0..=SHARDS).map(|cut| key(cut * NUMBERS / SHARDS)).collect();
    let shards = bounds.array_windows().zip(0..).map(|([start, end], id)| InitialShardInput {
        shard: ShardId::from_raw(id),
        spec: ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b""),
        cursor: CursorUpdate::initial(),
    });
    let shards: Vec<_> = shards.collect();
    let op = OpId::from_raw(1);
    coordinator.create_run_with_shards(TENANT, run, config, &shards, op).await?;
    loop {
        match coordinator.claim_next_available(TENANT, run, worker).await {
            Ok(shard) => work_on(&coordinator, shard, &folder.join("results")).await?,
            Err(ClaimError::RunNotActive(_)) => return report(&folder.join("results")),
            Err(ClaimError::NoneAvailable(_)) => {
                match coordinator.complete_run(TENANT, run, OpId::from_raw(2)).await {
                    Ok(_) | Err(RunTransitionError::RunTerminal(_)) => {}
                    // Others are still at it; when one of them goes, its shard is ours to finish.
                    Err(RunTransitionError::RunUnfinished(_)) => {
                        coordinator.something_to_claim(TENANT, run).await;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn work_on(
    coordinator: &FileCoordinator,
    shard: RestoredShardState,
    results: &Path,
) -> anyhow::Result<()> {
    let number = |key: &[u8]| anyhow::Ok(str::from_utf8(key)?.parse::<u32>()?);
    let spec = shard.spec.as_spec_ref();
    let first = match shard.cursor.as_update().last_key() {
        Some(done) => number(done)? + 1,
        None => number(spec.start())?,
    };
    for number in first..number(spec.end())? {
        // The result first, then the checkpoint: a kill in between repeats one number.
        let unfinished = results.join(format!(".{}.{}", key(number), std::process::id()));
        fs::write(&unfinished, steps_to_one(number.into()).to_string())?;
        fs::rename(unfinished, results.join(key(number)))?;
        let op = OpId::from_raw(shard.lease.fence().as_raw() << 32 | u64::from(number));
        let cursor = key(number);
        let cursor = CursorUpdate::at(cursor.as_bytes());
        coordinator.checkpoint(TENANT, &shard.lease, cursor, op).await?;
    }
    let last = key(number(spec.end())? - 1);
    let (cursor, op) = (CursorUpdate::at(last.as_bytes()), OpId::from_raw(u64::MAX));
    coordinator.complete(TENANT, &shard.lease, cursor, op).await?;
    Ok(())
}

fn key(number: u32) -> String {
    format!("{number:06}")
}

/// How often a number has to be halved, or tripled and raised by one, until it is 1.
fn steps_to_one(mut number: u64) -> u64 {
    let mut steps = 0;
    while number > 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

fn report(results: &Path) -> anyhow::Result<String> {
    let mut total = 0;
    for number in 0..NUMBERS {
        total += fs::read_to_string(results.join(key(number)))?.parse::<u64>()?;
    }
    Ok(format!("{NUMBERS} numbers, {total} steps"))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    const FOLDER: &str = "DURABLE_RUN_FOLDER";
    const KILLS: usize = 30;

    /// What the other test starts, to kill it.
    #[test]
    fn one_process() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        main_in(Path::new(&folder));
    }

    fn main_in(folder: &Path) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let report = runtime.block_on(work(folder)).unwrap();
        fs::write(folder.join("report"), report).unwrap();
    }

    fn start(folder: &Path) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::one_process"])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn thirty_kills_change_nothing_about_the_outcome() {
        let expected: u64 = (0..NUMBERS).map(|number| steps_to_one(number.into())).sum();
        let (mut kills, mut rounds) = (0, 0);
        while kills < KILLS {
            let folder = tempfile::tempdir().unwrap();
            while !folder.path().join("report").exists() {
                let mut child = start(folder.path());
                let patience = if kills < KILLS { fastrand::u64(1..120) } else { 60_000 };
                kills += usize::from(kill_after(&mut child, Duration::from_millis(patience)));
            }
            let report = fs::read_to_string(folder.path().join("report")).unwrap();
            assert_eq!(report, format!("{NUMBERS} numbers, {expected} steps"));
            rounds += 1;
        }
        assert!(rounds > 0);
    }

    /// Whether it had to be killed.
    fn kill_after(child: &mut Child, patience: Duration) -> bool {
        let start = std::time::Instant::now();
        while start.elapsed() < patience {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        true
    }
}
