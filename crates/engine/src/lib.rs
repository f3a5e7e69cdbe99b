//! Where bytes and protocol meet.
//!
//! The protocols know records and no bytes, a store knows bytes and no records. This crate knows
//! both.
//!
//! | module | what it holds |
//! |---|---|
//! | [`codec`] | every stored record as bytes, and back |
//! | [`keyspace`] | under which key each record is stored |
#![forbid(unsafe_code)]

pub mod codec;
pub mod keyspace;
