//! Runnable examples of Shardwright, one idea per file beside this one.

/// Compiles and runs the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
