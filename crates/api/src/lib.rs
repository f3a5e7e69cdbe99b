//! The wire protocol between processes.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | messages and services, compiled from `proto` |
//! | [`CallError`] | why a call failed, and what is known of its effect |
//! | [`code`] | the code of each error in gRPC, in HTTP and in our own list |
//! | [`limits`] | the limits of calls and messages |
//!
//! A caller must know whether a failed call may be retried. The [`Effect`] of each error states it.
#![forbid(unsafe_code)]

// The shared checks name the crate like other crates do.
#[cfg(test)]
extern crate self as shardwright_api;

#[cfg(test)]
#[path = "../tests/checks/mod.rs"]
mod checks;
pub mod code;
mod error;
pub mod limits;
pub mod wire;

pub use code::{error_of_status, short, status_of_error};
pub use error::{CallError, Effect, Limit, LimitOption, UnknownWhy};
