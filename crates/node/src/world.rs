//! Sockets, and the calls over them. Only this module may use a runtime, a clock or the network.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this module may use the real world"
)]

mod body;
mod browser;
mod client;
mod connection;
mod head;
mod http;
mod ingress;
mod message;
mod metered;
mod server;
mod timeout;

pub use client::{GrpcOptions, GrpcTransport};
pub use http::serve_http;
pub use ingress::Ingress;
pub use server::{serve_gate, serve_node, terminated};
