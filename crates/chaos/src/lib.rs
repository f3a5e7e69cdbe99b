//! Real processes on a real etcd cluster, while everything goes wrong that can.
//!
//! Workers run the engine in processes of their own and write down every call they make. A nemesis
//! kills, pauses and cuts off members and workers. Then everything is healed, everything must
//! finish, and a checker that shares no code with the engine judges what was written down.
//!
//! | module | what it holds |
//! |---|---|
//! | [`storm`] | the whole of it, from start to verdict |
//! | [`worker`] | what a worker process does |
//! | [`fleet`], [`nemesis`] | processes and links, and what happens to them |
//! | [`history`] | what is written down |
//! | [`final_state`] | what is stored when all is over |
//! | [`mod@check`] | what is wrong with either |
#![forbid(unsafe_code)]

pub mod check;
pub mod final_state;
pub mod fleet;
pub mod history;
pub mod nemesis;
pub mod plan;
pub mod report;
pub mod storm;
pub mod worker;
