//! Steps of a sequence, as data.

use std::fmt;

use shardwright_contracts::TenantId;
use shardwright_coordination::{Answer, Backend, Request};

/// One self-contained step of a sequence.
#[derive(Clone)]
pub(crate) enum Op {
    Call(TenantId, Box<Request<Vec<u8>>>),
    /// Advances the clock.
    Advance(u64),
}

/// Prints the request, and then its bytes in the order of its fields.
impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Call(tenant, request) = self else {
            let Self::Advance(millis) = self else { return Ok(()) };
            return write!(f, "Advance({millis})");
        };
        write!(f, "{tenant} {request:?}")?;
        let mut texts = Vec::new();
        request.map(|bytes: &Vec<u8>| texts.push(shown(bytes)));
        write!(f, " {}", texts.join(" "))
    }
}

fn shown(bytes: &[u8]) -> String {
    match bytes.get(..24) {
        Some(start) if bytes.len() > 24 => {
            format!("{}… ({} bytes)", start.escape_ascii(), bytes.len())
        }
        _ => format!("`{}`", bytes.escape_ascii()),
    }
}

/// Sends one request to one backend.
pub(crate) async fn perform(
    backend: &impl Backend,
    tenant: TenantId,
    request: &Request<Vec<u8>>,
) -> Answer {
    backend.call(tenant, request.as_ref()).await
}
