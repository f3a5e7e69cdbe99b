//! Runnable examples of Shardwright, one idea per file beside this one.
