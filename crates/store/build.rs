//! Compiles the etcd protocol without the program `protoc`.

#[cfg(feature = "etcd")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/etcd.proto");
    let descriptors = protox::compile(["proto/etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(descriptors)?;
    Ok(())
}

#[cfg(not(feature = "etcd"))]
fn main() {}
