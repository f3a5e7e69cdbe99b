//! A minimal S3 server on loopback: listings and HEAD requests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// Keys per page.
const ANSWER_MAX: usize = 100;

pub(crate) struct ListingServer {
    pub(crate) endpoint: String,
    listings: Arc<AtomicUsize>,
}

impl ListingServer {
    /// Serves objects with these keys and sizes.
    pub(crate) async fn start(objects: BTreeMap<String, usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let listings = Arc::new(AtomicUsize::new(0));
        let (objects, counter) = (Arc::new(objects), Arc::clone(&listings));
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, Arc::clone(&objects), Arc::clone(&counter)));
            }
        });
        Self { endpoint, listings }
    }

    /// Number of listing requests.
    pub(crate) fn listings(&self) -> usize {
        self.listings.load(Ordering::Relaxed)
    }

    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let settings = [
            ("aws_endpoint", self.endpoint.as_str()),
            ("aws_allow_http", "true"),
            ("aws_access_key_id", "key"),
            ("aws_secret_access_key", "secret"),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }
}

async fn serve(
    connection: TcpStream,
    objects: Arc<BTreeMap<String, usize>>,
    listings: Arc<AtomicUsize>,
) {
    let mut connection = BufReader::new(connection);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match connection.read_line(&mut line).await {
                Ok(1..) if line == "\r\n" => break,
                Ok(1..) => lines.push(line),
                _ => return,
            }
        }
        let mut words = lines[0].split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let url = Url::parse(&format!("http://host{target}")).unwrap();
        let answer = if method == "HEAD" {
            head(&url, &objects)
        } else {
            listings.fetch_add(1, Ordering::Relaxed);
            list(&url, &objects)
        };
        if connection.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn head(url: &Url, objects: &BTreeMap<String, usize>) -> String {
    let path = url.path().strip_prefix("/bucket/").unwrap_or_default();
    match objects.get(path) {
        Some(size) => format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\netag: \"x\"\r\n\
             last-modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
        ),
        None => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
    }
}

fn list(url: &Url, objects: &BTreeMap<String, usize>) -> String {
    let query: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    let parameter = |name: &str| query.get(name).cloned().unwrap_or_default();
    let after = parameter("start-after").max(parameter("continuation-token"));
    let prefix = parameter("prefix");
    let mut keys = objects.iter().filter(|(key, _)| **key > after && key.starts_with(&prefix));
    let mut body = String::from("<ListBucketResult>");
    let mut last = String::new();
    for (key, size) in keys.by_ref().take(ANSWER_MAX) {
        write!(
            body,
            "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>\"x\"</ETag>\
             <LastModified>1970-01-01T00:00:00.000Z</LastModified></Contents>"
        )
        .unwrap();
        last.clone_from(key);
    }
    if keys.next().is_some() {
        write!(body, "<NextContinuationToken>{last}</NextContinuationToken>").unwrap();
    }
    body.push_str("</ListBucketResult>");
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
