//! A process that is paused while it holds a shard on the file store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardSpecRef, TenantId,
    WorkerId,
};
use shardwright_coordination::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _, Backend as _,
    ClaimError, RunConfig,
};
use shardwright_runs::FileCoordinator;

const FOLDER: &str = "SHARDWRIGHT_STANDSTILL_FOLDER";
const TENANT: TenantId = TenantId::from_bytes([0; 32]);
const RUN: RunId = RunId::from_raw(1);
const LEASE_MS: u64 = 1_000;
const TIMEOUT: Duration = Duration::from_secs(60);

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs in a child process of the other test: holds a shard, and continues on a signal.
#[test]
fn child_process_holds_a_shard() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    block_on(async {
        let coordinator = FileCoordinator::in_folder(folder.join("state")).await.unwrap();
        let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
        let shard = InitialShardInput {
            shard: ShardId::from_raw(1),
            spec: ShardSpecRef::new(b"a", b"z", b""),
            cursor: CursorUpdate::initial(),
        };
        let op = OpId::from_raw(1);
        coordinator.create_run_with_shards(TENANT, RUN, config, &[shard], op).await.unwrap();
        let held = coordinator.claim_next_available(TENANT, RUN, WorkerId::from_raw(1)).await;
        let lease = held.unwrap().lease;
        fs::write(folder.join("held"), "").unwrap();
        wait_until("the child was never continued", || folder.join("go on").exists());
        let cursor = CursorUpdate::at(b"b");
        let answer = coordinator.checkpoint(TENANT, &lease, cursor, OpId::from_raw(2)).await;
        fs::write(folder.join("unfinished"), format!("{answer:?}")).unwrap();
        fs::rename(folder.join("unfinished"), folder.join("answer")).unwrap();
    });
}

/// A child process that is killed on drop, even if it is paused.
struct Holder(Child);

impl Holder {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "file_standstill::child_process_holds_a_shard"])
            .env(FOLDER, folder)
            .stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        assert!(kill.args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Pauses the child outside of a write.
    fn stop(&self, folder: &Path) {
        let turn = File::open(folder.join("state/locks/turn")).unwrap();
        let stat = format!("/proc/{}/stat", self.0.id());
        wait_until("the child writes all the time", || {
            self.signal("-STOP");
            wait_until("the child does not stop", || {
                fs::read_to_string(&stat).unwrap().contains(") T ")
            });
            let is_free = turn.try_lock().is_ok();
            if is_free {
                turn.unlock().unwrap();
            } else {
                self.signal("-CONT");
            }
            is_free
        });
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[test]
fn paused_holder_is_overtaken_and_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Holder::start(folder.path());
    wait_until("the child holds no shard", || folder.path().join("held").exists());
    holder.stop(folder.path());
    block_on(async {
        let coordinator = FileCoordinator::in_folder(folder.path().join("state")).await.unwrap();
        let worker = WorkerId::from_raw(2);
        let deadline = Instant::now() + TIMEOUT;
        let taken = loop {
            assert!(Instant::now() < deadline, "the shard is never taken over");
            match coordinator.claim_next_available(TENANT, RUN, worker).await {
                Ok(taken) => break taken,
                Err(ClaimError::NoneAvailable(_)) => {
                    // An expired lease sends no notification.
                    let wake_up = coordinator.claimable(TENANT, RUN);
                    let _woken = tokio::time::timeout(Duration::from_millis(20), wake_up).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        let cursor = CursorUpdate::at(b"m");
        coordinator.checkpoint(TENANT, &taken.lease, cursor, OpId::from_raw(3)).await.unwrap();
        fs::write(folder.path().join("go on"), "").unwrap();
        holder.signal("-CONT");
        wait_until("the child reports no answer", || folder.path().join("answer").exists());
        let answer = fs::read_to_string(folder.path().join("answer")).unwrap();
        assert!(answer.contains("StaleFence"), "{answer}");
        // The refused checkpoint has changed nothing.
        let cursor = CursorUpdate::at(b"n");
        coordinator.complete(TENANT, &taken.lease, cursor, OpId::from_raw(4)).await.unwrap();
    });
    assert!(holder.0.wait().unwrap().success());
}
