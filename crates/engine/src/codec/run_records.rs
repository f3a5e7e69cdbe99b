//! Records of the run protocol, apart from those of a shard and of a run.

use shardwright_contracts::{FenceEpoch, LogicalTime, OpId, WorkerId};

use crate::record;

/// The run protocol, whose records are declared here.
#[derive(Debug)]
pub enum RunProtocol {}

record! { RunProtocol:
    /// Owner of a shard. Deleted with the owner's session, if it has one.
    #[derive(Copy)]
    Binding: Kind::Binding {
        /// The worker.
        owner: WorkerId,
        /// Fence of its lease.
        fence: FenceEpoch,
        /// End of its lease.
        deadline: LogicalTime,
    }

    /// Registration in progress, which only the same registration can resume.
    ///
    /// `Debug` omits the fingerprint: a reader could test guesses of the registered shards on it.
    #[derive(Copy)]
    Stage: Kind::Stage {
        /// Id of the registration.
        op: OpId,
        /// Fingerprint of what it registers.
        payload_hash: u64,
    } shows(op)
}
