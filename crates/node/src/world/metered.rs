//! A service whose requests and answers count for the share of their peer.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use shardwright_api::limits::REQUEST_OVERHEAD;
use shardwright_api::{CallError, UnknownWhy, status_of_error};
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
    B: Body<Data = Bytes> + Default + Unpin + Send + 'static,
{
    type Response = Response<AnswerBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let turn = self.connection.begin();
        let head = turn.origin().count_head(head_size(&request));
        if let (Err(why), Framing::Prefix) = (&head, self.framing) {
            // A connection has many of these requests, so none may wait for its body.
            let refused = status_of_error(why).into_http::<B>();
            let refused = refused.map(|body| AnswerBody::new(body, turn.answer()));
            return Box::pin(ready(Ok(refused)));
        }
        let mut request =
            request.map(|body| RequestBody::new(body, Arc::clone(&turn), self.framing, head));
        request.extensions_mut().insert(Arc::clone(&turn));
        // Both services are always ready.
        let answered = self.service.clone().call(request);
        Box::pin(async move {
            let response = answered.await?;
            Ok(response.map(|body| AnswerBody::new(body, turn.answer())))
        })
    }
}

/// The bytes that a request occupies before its body.
fn head_size<B>(request: &Request<B>) -> u64 {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter();
    let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
    REQUEST_OVERHEAD + (path + headers) as u64
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
