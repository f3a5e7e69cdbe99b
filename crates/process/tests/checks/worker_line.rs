use serde_json::json;
use shardwright_process::{Incoming, KeyText, PersistentError, parse_line};

/// Longest text of a malformed line in an error: 120 escaped bytes and an ellipsis.
const SHOWN_MAX: usize = 120 * 4 + 3;

/// Parsing never panics, a message survives being written again, and errors are short.
pub(crate) fn line(data: &[u8]) {
    match parse_line(data) {
        Ok(message) => assert_eq!(parse_line(&written(&message)).unwrap(), message),
        Err(PersistentError::Malformed { line }) => {
            assert!(line.len() <= SHOWN_MAX);
            assert!(!line.contains(char::is_control), "{line:?}");
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// The line of a message, as a program would write it.
fn written(message: &Incoming<'_>) -> Vec<u8> {
    let line = match message {
        Incoming::Hello { version } => json!({"type": "hello", "version": version}),
        Incoming::Done { id, output } => {
            json!({"type": "done", "id": id, "output": KeyText::new(output)})
        }
        Incoming::Failed { id, detail, may_retry } => {
            json!({"type": "failed", "id": id, "detail": detail, "retry": may_retry})
        }
        Incoming::Revoked { id } => json!({"type": "revoked", "id": id}),
    };
    line.to_string().into_bytes()
}
