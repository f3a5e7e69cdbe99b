//! Whole clusters in one process, on a store in memory and a clock that only moves when all tasks
//! wait.

mod auto_load;
mod counter;
mod failing;
mod holding;
mod load;
mod losing;
mod moving;
mod nesting;
mod refused;
mod slow_calls;
mod world;
