//! An S3 server on loopback.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Debian's Python, not the first in PATH: the test command installs pip for it.
const PYTHON: &str = "/usr/bin/python3";
/// The server accepts any signature, and one owner has all objects of signed requests.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
                         SignedHeaders=host, Signature=any";
const PACKAGES: [&str; 3] = ["moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"];
/// Prints the port that it listens on, and exits when its stdin closes.
const SERVER: &str = r#"
import logging, sys
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"#;

/// A server as a process. Dropping it stops the process.
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

    /// The environment variables with which a program uses the server.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ]
    }

    /// Creates a bucket, or an object in a bucket.
    pub(crate) fn put(&self, path: &str, body: &str) {
        self.request("PUT", path, body);
    }

    /// Reads an object.
    pub(crate) fn get(&self, path: &str) -> String {
        let response = self.request("GET", path, "");
        response.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn request(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\
             Authorization: {SIGNATURE}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        response
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _waited = self.child.wait();
    }
}

/// Returns the folder of the server's packages. The first call downloads them.
fn packages() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto-5.2.5");
    if folder.is_dir() {
        return folder;
    }
    // Other test processes may download, too. Each uses its own folder and renames it at the end.
    let download = folder.with_extension(format!("download-{}", std::process::id()));
    let mut pip = Command::new(PYTHON);
    pip.args(["-m", "pip", "install", "--quiet", "--no-compile", "--target"]).arg(&download);
    assert!(pip.args(PACKAGES).status().unwrap().success(), "pip could not install {PACKAGES:?}");
    if fs::rename(&download, &folder).is_err() {
        assert!(folder.is_dir(), "cannot create {}", folder.display());
        fs::remove_dir_all(&download).unwrap();
    }
    folder
}
