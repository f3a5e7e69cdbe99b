//! What may be done to a shard, one file per operation: each checks everything and then says what
//! to write, or which rule forbids it. Nothing here writes.
//!
//! | operation | whose | writes |
//! |---|---|---|
//! | [`claim()`] | the node that should have the shard | its claim, with a new fence |
//! | [`release()`] | the node that has it | its claim, without a holder |
//! | [`keep()`] | the node that has it | its claim, as it is |
//! | [`reassign()`], [`pin()`], [`unpin()`], [`freeze()`] | an operator's | targets |
//! | [`lead()`], [`check_leader()`] | the leader's own | the leader's key; nothing |

mod claim;
mod freeze;
mod leader;
mod pin;
mod reassign;
mod release;

pub use claim::{ClaimRefused, claim};
pub use freeze::{FreezeRefused, freeze};
pub use leader::{LeadRefused, LeaderRefused, check_leader, lead};
pub use pin::{PinRefused, pin, unpin};
pub use reassign::{ReassignRefused, reassign};
pub use release::{ReleaseRefused, Releasing, keep, release};

#[cfg(test)]
mod tests;
