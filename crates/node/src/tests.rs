//! Whole clusters in one process, on a store in memory and a clock that only moves when everybody
//! waits.

mod counter;
mod holding;
mod load;
mod losing;
mod moving;
mod nesting;
mod world;
