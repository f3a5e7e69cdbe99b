//! Names of operations, for errors.

/// Names of the steps of an operation. An [`InfraError`](shardwright_contracts::InfraError) carries
/// the name of the step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Reading and decoding, for example `acquire.load`.
    pub load: &'static str,
    /// Storing, for example `acquire.commit`.
    pub commit: &'static str,
}

/// The [`Operation`] of a name.
#[macro_export]
macro_rules! operation {
    ($name:literal) => {
        $crate::Operation { load: concat!($name, ".load"), commit: concat!($name, ".commit") }
    };
}
