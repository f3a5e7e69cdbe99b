//! What the files in `proto` become in Rust.

/// Why calls are not answered.
pub mod failure {
    #![expect(missing_docs, clippy::all, reason = "generated code is not ours to tidy")]
    tonic::include_proto!("shardwright.failure.v1");
}

/// What gates and nodes say to nodes.
pub mod node {
    #![expect(missing_docs, unused_qualifications, reason = "generated code is not ours to tidy")]
    tonic::include_proto!("shardwright.node.v1");
}

/// What clients say to gates.
pub mod gate {
    #![expect(missing_docs, unused_qualifications, reason = "generated code is not ours to tidy")]
    tonic::include_proto!("shardwright.gate.v1");
}
