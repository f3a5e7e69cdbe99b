use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, AsyncWorkEstimates,
};

/// What a worker needs of the run protocol; every backend that has it all is one.
pub trait Backend: AsyncCoordinationBackend + AsyncRunManagement + 'static
where
    Self: AsyncShardClaiming + AsyncWorkEstimates,
{
}

impl<B> Backend for B where
    B: AsyncCoordinationBackend
        + AsyncRunManagement
        + AsyncShardClaiming
        + AsyncWorkEstimates
        + 'static
{
}
