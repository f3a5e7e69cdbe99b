//! Real processes on a real etcd cluster under faults.
//!
//! Worker processes run the engine and record every call. A nemesis kills, pauses and partitions
//! members and workers. Then all faults end, and all work must finish. A checker that shares no
//! code with the engine judges the recorded history.
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`] | the whole test, from start to verdict |
//! | [`worker`] | the worker process |
//! | [`fleet`], [`nemesis`] | processes and links, and their faults |
//! | [`history`] | the recorded calls |
//! | [`final_state`] | the stored records at the end |
//! | [`mod@check`] | the checker |
#![forbid(unsafe_code)]

pub mod check;
pub mod final_state;
pub mod fleet;
pub mod history;
pub mod nemesis;
pub mod plan;
pub mod report;
pub mod scenario;
pub mod worker;
