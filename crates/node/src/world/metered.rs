//! A service whose requests and answers count for the share of their peer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use shardwright_api::{CallError, UnknownWhy};
use tonic::codegen::Service;

use super::body::{AnswerBody, Framing, RequestBody};
use super::connection::Connection;
use crate::call::{Call, Origin};
use crate::transport::CallService;

/// The service of one connection.
pub(super) struct Metered<S> {
    service: S,
    connection: Arc<Connection>,
    framing: Framing,
}

impl<S> Metered<S> {
    pub(super) const fn new(service: S, connection: Arc<Connection>, framing: Framing) -> Self {
        Self { service, connection, framing }
    }
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Metered<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin,
{
    type Response = Response<AnswerBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let turn = self.connection.begin();
        let mut request =
            request.map(|body| RequestBody::new(body, Arc::clone(&turn), self.framing));
        request.extensions_mut().insert(Arc::clone(&turn));
        // Both services are always ready.
        let answered = self.service.clone().call(request);
        Box::pin(async move {
            let response = answered.await?;
            Ok(response.map(|body| AnswerBody::new(body, turn.answer())))
        })
    }
}

/// Answers a decoded call. The answer counts for the share of the peer.
pub(super) async fn answer(
    service: &dyn CallService,
    call: Result<Call, CallError>,
    origin: Option<Arc<Origin>>,
) -> Result<Bytes, CallError> {
    let answer = service.answer(Call { origin: origin.clone(), ..call? }).await?;
    if let Some(origin) = origin {
        // The call was executed, so the answer is lost.
        let counted = origin.count_answer(answer.len() as u64);
        counted.map_err(|_full| CallError::Unknown(UnknownWhy::Lost))?;
    }
    Ok(answer)
}
