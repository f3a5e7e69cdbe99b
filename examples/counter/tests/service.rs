//! The service as users run it: two nodes, a gate, and clients over HTTP and gRPC.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use shardwright_api::wire::gate::CallRequest;
use shardwright_api::wire::gate::gate_client::GateClient;

/// A program that runs until this is dropped.
struct Program {
    child: Child,
    /// Its first line of output.
    greeting: String,
    /// Kept open, so that the program can print more.
    _output: BufReader<ChildStdout>,
}

impl Program {
    fn start(path: &str, folder: &str, flags: &[&str]) -> Self {
        let mut command = Command::new(path);
        command.args(["--store", &format!("file:{folder}"), "--stability-ms", "100"]);
        command.args(flags);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut greeting).unwrap();
        Self { child, greeting: greeting.trim().to_owned(), _output: output }
    }

    fn node(folder: &str) -> Self {
        Self::start(env!("CARGO_BIN_EXE_counter-node"), folder, &[])
    }

    fn ends(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn http(address: &str, object: &str, method: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /call/Counter/{object}/{method} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         timeout-ms: 30000\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn counters_outlive_their_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let mut first = Program::node(folder);
    assert!(first.greeting.ends_with("serves counters"), "{}", first.greeting);
    let gate = Program::start(env!("CARGO_BIN_EXE_counter-gate"), folder, &[]);
    let words: Vec<&str> = gate.greeting.split(' ').collect();
    let (grpc, web) = (words[1], words[7]);

    assert_eq!(http(web, "visits", "add", "5"), (200, "5".to_owned()));
    assert_eq!(http(web, "visits", "add", "-2"), (200, "3".to_owned()));
    let (status, answer) = http(web, "visits", "add", "many");
    assert!(status >= 400 && answer.contains("must be an integer"), "{status} {answer}");

    let mut client = GateClient::connect(format!("http://{grpc}")).await.unwrap();
    let mut get = async |object: &str| {
        let mut request = tonic::Request::new(CallRequest {
            object_type: "Counter".to_owned(),
            object: object.to_owned(),
            method: "get".to_owned(),
            payload: "".into(),
            ..CallRequest::default()
        });
        request.set_timeout(Duration::from_secs(30));
        client.call(request).await.unwrap().into_inner().payload
    };
    assert_eq!(get("visits").await, "3");
    assert_eq!(get("shard#7/visits").await, "0");

    // A second node starts and the first one stops. The second serves the stored values.
    let _second = Program::node(folder);
    let id = rustix::process::Pid::from_child(&first.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(first.ends(), "a node that gets SIGTERM hands over and ends");
    assert_eq!(get("visits").await, "3");
    assert_eq!(http(web, "visits", "add", "1"), (200, "4".to_owned()));
}

#[test]
fn an_address_that_cannot_be_called_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let everywhere = ["--listen", "0.0.0.0:0"];
    for program in [env!("CARGO_BIN_EXE_counter-node"), env!("CARGO_BIN_EXE_counter-gate")] {
        let mut command = Command::new(program);
        let output = command.args(["--store", &format!("file:{folder}")]).args(everywhere).output();
        let output = output.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("set --address"), "{error}");
        let flags = [&everywhere[..], &["--address", "localhost:7000"]].concat();
        let reached = Program::start(program, folder, &flags);
        assert!(reached.greeting.contains(" localhost:7000 "), "{}", reached.greeting);
    }
}
