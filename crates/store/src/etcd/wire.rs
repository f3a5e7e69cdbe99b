//! What `proto/etcd.proto` becomes in Rust.
#![expect(
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    reason = "generated code is not ours to tidy"
)]

tonic::include_proto!("etcdserverpb");
