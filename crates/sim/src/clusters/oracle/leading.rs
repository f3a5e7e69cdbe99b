use shardwright_placement::{NodeAddress, TargetHeader};

use super::ensure;
use crate::clusters::truth::Truth;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "leading",
    "targets are written by who leads at that moment, or by an operator, one version after the \
     other",
);

/// Judges a write of targets by a node, or by an operator if it is none.
pub(in crate::clusters) fn judge(
    truth: &Truth,
    after: TargetHeader,
    writer: Option<&NodeAddress>,
) -> Result<(), Finding> {
    let (before, next) = (truth.header.version, after.version);
    ensure(ORACLE, next == before.next(), || format!("version {next} was written over {before}"))?;
    let leader = truth.leader.as_ref().map(|leader| &leader.address);
    ensure(ORACLE, writer.is_none() || writer == leader, || {
        format!("version {next} was written by {writer:?} while {leader:?} led")
    })
}
