//! Compiles the messages and services without the program `protoc`.

const FILES: [&str; 3] =
    ["shardwright/failure.proto", "shardwright/node.proto", "shardwright/gate.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
