//! Runnable examples of Shardwright, one idea per file beside this one.

/// Compiles the Rust blocks of the pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/clusters.md")]
    struct Clusters;
}
