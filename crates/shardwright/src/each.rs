//! A handler that calls a function for each item.

use std::error::Error as StdError;
use std::fmt;

use shardwright_coordination::ParkReason;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Batch, Handler, ItemFailure, Outcome};

/// Why an item failed. Any error converts into a retryable one, so `?` works in the function of
/// [`Run::each`](crate::Run::each).
pub struct ItemError {
    detail: String,
    is_retryable: bool,
}

impl ItemError {
    /// A failure that a retry may fix. After the last retry, the item is parked.
    pub fn retryable(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), is_retryable: true }
    }

    /// A failure that no retry fixes. The item is parked at once.
    pub fn permanent(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), is_retryable: false }
    }

    fn into_failure(self) -> ItemFailure {
        if self.is_retryable {
            ItemFailure::retryable(self.detail)
        } else {
            ItemFailure::permanent(ParkReason::Other, self.detail)
        }
    }
}

impl<E: StdError> From<E> for ItemError {
    fn from(error: E) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail.push_str(": ");
            detail.push_str(&cause.to_string());
            source = cause.source();
        }
        Self { detail, is_retryable: true }
    }
}

/// The detail may quote an item.
impl fmt::Debug for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemError")
            .field("detail_bytes", &self.detail.len())
            .field("is_retryable", &self.is_retryable)
            .finish()
    }
}

/// What the function of [`Run::each`](crate::Run::each) returns for an item: bytes for the results.
/// The unit type `()` adds none.
pub trait IntoResult: Send {
    /// The bytes to append to the results.
    fn into_result(self) -> Vec<u8>;
}

impl IntoResult for () {
    fn into_result(self) -> Vec<u8> {
        Vec::new()
    }
}

impl IntoResult for &'static str {
    fn into_result(self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl IntoResult for String {
    fn into_result(self) -> Vec<u8> {
        self.into_bytes()
    }
}

impl IntoResult for Vec<u8> {
    fn into_result(self) -> Vec<u8> {
        self
    }
}

/// Calls a function for each item.
pub(crate) struct Each<F>(pub(crate) F);

impl<F, R, T> Handler for Each<F>
where
    F: Fn(Item) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, ItemError>> + Send,
    T: IntoResult,
{
    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            let result = (self.0)(item.clone()).await;
            outcomes.push(result.map(T::into_result).map_err(ItemError::into_failure));
        }
        outcomes
    }
}
