use bytes::Bytes;
use shardwright_node::{Activation, CallContext, ObjectError, ObjectType};

/// The name of the type.
pub(crate) const TYPE: &str = "Fence";

/// Objects that answer with the fence of whoever has them.
pub(crate) struct Fence;

impl ObjectType for Fence {
    type Object = u64;

    async fn activate(&self, activation: &Activation) -> Result<u64, ObjectError> {
        Ok(activation.fence.map_or(0, |fence| fence.as_raw()))
    }

    async fn handle(
        &self,
        fence: &mut u64,
        _context: &CallContext,
        _method: &str,
        _payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        Ok(fence.to_string().into())
    }
}
