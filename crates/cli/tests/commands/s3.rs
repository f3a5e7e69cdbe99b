//! An S3 server on loopback.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Debian's own, whatever else is on the search path: the test command installs its pip.
const PYTHON: &str = "/usr/bin/python3";
/// Whoever signs at all is let in, and is the owner of what signed requests have made.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/s3/aws4_request, \
                         SignedHeaders=host, Signature=any";
const PACKAGES: [&str; 3] = ["moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"];
/// Says in which port it listens, and ends with its input.
const SERVER: &str = r#"
import logging, sys
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"#;

/// A server that is gone when this is.
pub(crate) struct S3Server {
    child: Child,
    input: Option<ChildStdin>,
    port: u16,
}

impl S3Server {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(PYTHON)
            .args(["-c", SERVER])
            .env("PYTHONPATH", packages())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (port, input) = (line.trim().parse().unwrap(), child.stdin.take());
        Self { child, input, port }
    }

    /// What a program has to have in its environment to use it.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "anybody".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "anything".to_owned()),
        ]
    }

    /// Makes a bucket, or an object in one.
    pub(crate) fn put(&self, path: &str, body: &str) {
        self.ask("PUT", path, body);
    }

    /// Reads an object.
    pub(crate) fn get(&self, path: &str) -> String {
        let answer = self.ask("GET", path, "");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\
             Authorization: {SIGNATURE}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ended = self.child.wait();
    }
}

/// The server's packages, fetched once from the package registry.
fn packages() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto-5.2.5");
    if folder.is_dir() {
        return folder;
    }
    // Another process may be at it as well: each works in a folder of its own and renames.
    let arriving = folder.with_extension(format!("arriving-{}", std::process::id()));
    let mut pip = Command::new(PYTHON);
    pip.args(["-m", "pip", "install", "--quiet", "--no-compile", "--target"]).arg(&arriving);
    assert!(pip.args(PACKAGES).status().unwrap().success(), "pip could not install {PACKAGES:?}");
    if fs::rename(&arriving, &folder).is_err() {
        assert!(folder.is_dir(), "{} cannot be made", folder.display());
        fs::remove_dir_all(&arriving).unwrap();
    }
    folder
}
