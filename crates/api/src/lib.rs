//! What processes say to each other.
//!
//! | module | what it holds |
//! |---|---|
//! | [`wire`] | messages and services, compiled from `proto` |
//! | [`CallError`] | why a call was not answered, and what is known of its effect |
//! | [`code`] | the code of each such reason, on gRPC, on HTTP and in our own list |
//! | [`limits`] | how much of everything there may be |
//!
//! Whoever calls must know one thing above all: whether a call that failed may be made again. Each
//! error says so, by its [`Effect`].
#![forbid(unsafe_code)]

pub mod code;
mod error;
pub mod limits;
pub mod wire;

pub use code::{error_of_status, short, status_of_error};
pub use error::{CallError, Effect, UnknownWhy};
