//! Calls over plain HTTP: `POST /call/{type}/{object}/{method}` with the payload as body. The
//! response body is the object's answer. `DELETE /call/{type}/{object}` deletes an object. An error
//! is a small JSON object.
//!
//! The header `timeout-ms` sets the timeout, 30 seconds by default. In a path, `/` and `#` of an
//! object's id are encoded as `%2F` and `%23`.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde::Serialize;
use shardwright_api::limits::{MAX_PAYLOAD_SIZE, MAX_TIMEOUT};
use shardwright_api::wire::gate::{CallRequest, DeleteRequest};
use shardwright_api::{CallError, Effect, code};
use tokio::net::TcpListener;

use super::{message, timeout};
use crate::transport::CallService;

const TIMEOUT: HeaderName = HeaderName::from_static("timeout-ms");

/// Serves clients over HTTP until `stop` is ready, and finishes running calls.
pub async fn serve_http(
    listener: TcpListener,
    service: Arc<dyn CallService>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, http_routes(service)).with_graceful_shutdown(stop).await
}

fn http_routes(service: Arc<dyn CallService>) -> Router {
    Router::new()
        .route("/call/{type}/{object}/{method}", post(call))
        .route("/call/{type}/{object}", delete(delete_object))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(DefaultBodyLimit::max(MAX_PAYLOAD_SIZE))
        .with_state(service)
}

/// The JSON form of a call's error.
#[derive(Serialize)]
struct Problem {
    /// The code of the error, or `INVALID_REQUEST`.
    code: &'static str,
    message: String,
    /// Whether the call was executed: `no`, `yes` or `unknown`.
    executed: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

async fn call(
    State(service): State<Arc<dyn CallService>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    headers: HeaderMap,
    payload: Result<Bytes, BytesRejection>,
) -> Response {
    let (object_type, object, method) = match path {
        Ok(Path(path)) => path,
        Err(why) => return malformed(why.body_text()),
    };
    let timeout = match time_for(&headers) {
        Ok(timeout) => timeout,
        Err(why) => return malformed(why),
    };
    let payload = match payload {
        Ok(payload) => payload,
        Err(why) if why.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return problem(&too_large(&headers));
        }
        Err(why) => return malformed(why.body_text()),
    };
    let request = CallRequest { object_type, object, method, payload };
    let answered = match message::from_client(request, timeout) {
        Ok(call) => service.answer(call).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(answer) => answer.into_response(),
        Err(error) => problem(&error),
    }
}

async fn delete_object(
    State(service): State<Arc<dyn CallService>>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let (object_type, object) = match path {
        Ok(Path(path)) => path,
        Err(why) => return malformed(why.body_text()),
    };
    let timeout = match time_for(&headers) {
        Ok(timeout) => timeout,
        Err(why) => return malformed(why),
    };
    let answered = match message::to_delete(DeleteRequest { object_type, object }, timeout) {
        Ok(call) => service.answer(call).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(answer) => answer.into_response(),
        Err(error) => problem(&error),
    }
}

fn time_for(headers: &HeaderMap) -> Result<Duration, String> {
    let Some(written) = headers.get(TIMEOUT) else { return Ok(timeout::DEFAULT) };
    let millis = written.to_str().ok().and_then(|text| text.trim().parse().ok());
    let millis = millis.ok_or_else(|| format!("{TIMEOUT} is not a number of milliseconds"))?;
    Ok(Duration::from_millis(millis).min(MAX_TIMEOUT))
}

/// The error for a body that was not read to its end. Only its header may give its length.
fn too_large(headers: &HeaderMap) -> CallError {
    let limit = MAX_PAYLOAD_SIZE as u64;
    let stated = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let size = stated.and_then(|text| text.parse().ok()).unwrap_or(limit + 1);
    CallError::TooLarge { size, limit }
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
