//! Calls over plain HTTP: `POST /call/{type}/{object}/{method}` with the payload as body. The
//! response body is the object's answer. `DELETE /call/{type}/{object}` deletes an object. An error
//! is a small JSON object.
//!
//! The header `timeout-ms` sets the timeout, 30 seconds by default. In a path, `/` and `#` of an
//! object's id are encoded as `%2F` and `%23`.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use shardwright_api::limits::{MAX_HEADER_SIZE, MAX_HEADERS, MAX_TIMEOUT};
use shardwright_api::wire::gate::{CallRequest, DeleteRequest};
use shardwright_api::{CallError, Effect, code, error_of_status};
use tokio::net::TcpListener;
use tonic::Status;

use super::body::Framing;
use super::browser::{self, Refusal};
use super::connection::Turn;
use super::head::HeadTimer;
use super::ingress::{Accepted, Ingress, accept};
use super::metered::{Metered, answer};
use super::{message, timeout};
use crate::call::Call;
use crate::transport::CallService;

const TIMEOUT: HeaderName = HeaderName::from_static("timeout-ms");

/// Serves clients over HTTP until `stop` is ready, and finishes running calls within the limits of
/// `ingress`.
///
/// A request must name the address that it was sent to, or one of `hosts`: otherwise a page of
/// another site could make a browser send it.
pub async fn serve_http(
    listener: TcpListener,
    service: Arc<dyn CallService>,
    hosts: Vec<String>,
    ingress: Arc<Ingress>,
    stop: impl Future<Output = ()>,
) {
    let routes = routes(service, hosts.into());
    accept(listener, Accepted::Clients, ingress, stop, |stream, connection, closing| {
        let service = Metered::new(routes.clone(), Arc::clone(&connection), Framing::Header);
        let io = TokioIo::new(HeadTimer::new(stream, Arc::clone(&connection)));
        let running = builder().serve_connection(io, service);
        connection.run(running, http1::Connection::graceful_shutdown, closing)
    })
    .await;
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Its own timeout would also run between two requests.
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_SIZE);
    builder
}

fn routes(service: Arc<dyn CallService>, hosts: Arc<[String]>) -> Router {
    Router::new()
        .route("/call/{type}/{object}/{method}", post(call))
        .route("/call/{type}/{object}", delete(delete_object))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .fallback(|request: Request| refuse(request, Refusal::NotFound))
        .method_not_allowed_fallback(|request: Request| refuse(request, Refusal::Method))
        .layer(from_fn_with_state(hosts, check))
        .with_state(service)
}

/// Refuses requests that a page of another site may have made a browser send.
async fn check(
    State(hosts): State<Arc<[String]>>,
    Extension(turn): Extension<Arc<Turn>>,
    request: Request,
    next: Next,
) -> Response {
    let local = turn.connection().local().ip();
    match browser::check(request.method(), request.headers(), local, &hosts) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refuse(request, refusal).await,
    }
}

async fn refuse(request: Request, refusal: Refusal) -> Response {
    // The request is refused in any case.
    let _ = discard(request.into_body()).await;
    let (code, status) = refusal.codes();
    let message = refusal.to_string();
    json(status, &Problem { code, message, executed: "no", retry_after_ms: None })
}

/// Reads a body to its end, which has limits. Otherwise its sender might lose the answer.
async fn discard(body: Body) -> Result<(), axum::Error> {
    let mut data = body.into_data_stream();
    while data.next().await.transpose()?.is_some() {}
    Ok(())
}

async fn ready(State(service): State<Arc<dyn CallService>>) -> Response {
    match service.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(why) => {
            let (code, message) = ("NOT_READY", why.to_string());
            let problem = Problem { code, message, executed: "no", retry_after_ms: Some(1_000) };
            json(StatusCode::SERVICE_UNAVAILABLE, &problem)
        }
    }
}

/// The JSON form of a call's error.
#[derive(Serialize)]
struct Problem {
    /// The code of a call's error, or of a request that is no call.
    code: &'static str,
    message: String,
    /// Whether the call was executed: `no`, `yes` or `unknown`.
    executed: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

async fn call(
    State(service): State<Arc<dyn CallService>>,
    Extension(turn): Extension<Arc<Turn>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let payload = match read(body).await {
        Ok(payload) => payload,
        Err(why) => return unread(&why),
    };
    let (object_type, object, method) = match path {
        Ok(Path(path)) => path,
        Err(why) => return malformed(why.body_text()),
    };
    let timeout = match time_for(&headers) {
        Ok(timeout) => timeout,
        Err(why) => return malformed(why),
    };
    let request = CallRequest { object_type, object, method, payload, ..CallRequest::default() };
    perform(&*service, &turn, message::from_client(request, timeout)).await
}

async fn delete_object(
    State(service): State<Arc<dyn CallService>>,
    Extension(turn): Extension<Arc<Turn>>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if let Err(why) = discard(body).await {
        return unread(&why);
    }
    let (object_type, object) = match path {
        Ok(Path(path)) => path,
        Err(why) => return malformed(why.body_text()),
    };
    let timeout = match time_for(&headers) {
        Ok(timeout) => timeout,
        Err(why) => return malformed(why),
    };
    let request = DeleteRequest { object_type, object };
    perform(&*service, &turn, message::to_delete(request, timeout)).await
}

/// Executes a call that was decoded.
async fn perform(
    service: &dyn CallService,
    turn: &Turn,
    call: Result<Call, CallError>,
) -> Response {
    match answer(service, call, Some(Arc::clone(turn.origin()))).await {
        Ok(answer) => answer.into_response(),
        Err(error) => problem(&error),
    }
}

/// Reads a body into one buffer of its length. The body limits that length itself.
async fn read(body: Body) -> Result<Bytes, axum::Error> {
    let size = usize::try_from(body.size_hint().lower()).unwrap_or_default();
    let mut data = body.into_data_stream();
    let mut payload = BytesMut::new();
    while let Some(part) = data.next().await.transpose()? {
        // The length counts for the peer's share before the first part.
        payload.reserve(size.saturating_sub(payload.len()).max(part.len()));
        payload.extend_from_slice(&part);
    }
    Ok(payload.freeze())
}

fn time_for(headers: &HeaderMap) -> Result<Duration, String> {
    let Some(written) = headers.get(TIMEOUT) else { return Ok(timeout::DEFAULT) };
    let millis = written.to_str().ok().and_then(|text| text.trim().parse().ok());
    let millis = millis.ok_or_else(|| format!("{TIMEOUT} is not a number of milliseconds"))?;
    Ok(Duration::from_millis(millis).min(MAX_TIMEOUT))
}

/// The response to a request whose body was not read.
fn unread(error: &axum::Error) -> Response {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(one) = cause {
        if let Some(error) = one.downcast_ref::<Status>().and_then(error_of_status) {
            return problem(&error);
        }
        cause = one.source();
    }
    malformed("the body is incomplete".to_owned())
}

/// The response to a request that is no call.
fn malformed(message: String) -> Response {
    let code = "INVALID_REQUEST";
    let problem = Problem { code, message, executed: "no", retry_after_ms: None };
    json(StatusCode::BAD_REQUEST, &problem)
}

fn problem(error: &CallError) -> Response {
    let codes = code::codes(error);
    let executed = match error.effect() {
        Effect::NotExecuted => "no",
        Effect::Executed => "yes",
        Effect::Unknown => "unknown",
    };
    let retry_after_ms = match error {
        CallError::Moving { retry_after_ms, .. }
        | CallError::Unclaimed { retry_after_ms, .. }
        | CallError::NodeGone { retry_after_ms, .. } => Some(*retry_after_ms),
        _ => None,
    };
    let code = codes.failure.as_str_name();
    let code = code.strip_prefix("FAILURE_CODE_").unwrap_or(code);
    let problem = Problem { code, message: error.to_string(), executed, retry_after_ms };
    let status = StatusCode::from_u16(codes.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(status, &problem)
}

fn json(status: StatusCode, problem: &Problem) -> Response {
    // Strings and numbers are always JSON.
    let body = serde_json::to_vec(problem).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
