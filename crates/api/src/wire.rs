//! The Rust code of the files in `proto`.

/// Errors of calls.
pub mod failure {
    #![expect(missing_docs, clippy::all, reason = "generated code is not ours to tidy")]
    tonic::include_proto!("shardwright.failure.v1");
}

/// Requests of gates and nodes to nodes.
pub mod node {
    #![expect(missing_docs, unused_qualifications, reason = "generated code is not ours to tidy")]
    tonic::include_proto!("shardwright.node.v1");
}

/// Requests of clients to gates.
pub mod gate {
    #![expect(missing_docs, unused_qualifications, reason = "generated code is not ours to tidy")]
    tonic::include_proto!("shardwright.gate.v1");
}

#[cfg(test)]
mod tests;
