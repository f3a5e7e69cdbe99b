use std::fmt::Debug;

use prost::Message;
use shardwright_api::wire::failure::Failure;
use shardwright_api::wire::{gate, node};
use shardwright_api::{error_of_status, status_of_error};
use tonic::{Code, Status};

/// Bytes are a message of each type or an error, and never cause a panic.
pub(crate) fn any_type(data: &[u8]) {
    check::<node::CallRequest>(data);
    check::<node::CallResponse>(data);
    check::<node::Link>(data);
    check::<node::LoadsRequest>(data);
    check::<node::LoadsResponse>(data);
    check::<gate::CallRequest>(data);
    check::<gate::CallResponse>(data);
    check::<Failure>(data);
    failure(data);
}

/// A message that decodes survives being encoded again, and is not much larger than its bytes.
fn check<M: Message + Default + PartialEq + Debug>(data: &[u8]) {
    if let Ok(message) = M::decode(data) {
        let encoded = message.encode_to_vec();
        assert_eq!(M::decode(encoded.as_slice()).unwrap(), message);
        // A negative number may be longer in its canonical form.
        assert!(encoded.len() <= data.len().saturating_mul(2));
    }
}

/// An error in the details of a status survives being sent again.
fn failure(details: &[u8]) {
    let status = Status::with_details(Code::Unavailable, "a reason", details.to_vec().into());
    if let Some(error) = error_of_status(&status) {
        let sent = error_of_status(&status_of_error(&error)).unwrap();
        // Texts are truncated when they are sent.
        assert_eq!(error_of_status(&status_of_error(&sent)), Some(sent));
    }
}
