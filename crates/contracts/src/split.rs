//! Plans that divide a shard, proved to lose and to repeat no key.
//!
//! There are two ways to divide. *Replace* retires the parent in favour of two or more children
//! that tile its whole range. *Residual* lets the parent keep the left part, with its lease and
//! its progress, and gives the right part to one new shard.
//!
//! A plan borrows everything it names and lives on the stack. Whoever applies it checks it again
//! against the shard as it is then ([`SplitReplacePlan::validate_against`],
//! [`SplitResidualPlan::validate_against`]), because the shard may have moved on meanwhile.

mod error;
mod replace;
mod residual;
mod tiling;

pub use error::SplitValidationError;
pub use replace::{
    SplitChild, SplitPart, SplitReplacePlan, plan_split_replace, plan_split_replace_with_children,
};
pub use residual::{
    SplitResidualPlan, plan_split_residual, plan_split_residual_with_metadata,
    validate_residual_split_bounds,
};
pub use tiling::validate_split_coverage;

#[cfg(test)]
mod tests;
