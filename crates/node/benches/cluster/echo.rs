use bytes::Bytes;
use shardwright_node::{Activation, CallContext, ObjectError, ObjectType};

/// The name of the type.
pub(crate) const TYPE: &str = "Echo";

/// Objects that answer with what they are told, or with the fence of whoever has them.
pub(crate) struct Echo;

impl ObjectType for Echo {
    type Object = u64;

    async fn activate(&self, activation: &Activation) -> Result<u64, ObjectError> {
        Ok(activation.fence.map_or(0, |fence| fence.as_raw()))
    }

    async fn handle(
        &self,
        fence: &mut u64,
        _context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        Ok(if method == "fence" { fence.to_string().into() } else { payload })
    }
}
