//! The cost of calls while other peers of the gate attack: connections that send nothing, messages
//! that never end, and connections beyond the share of their address.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::Client;
use crate::measure::{self, Cost};

const SILENT: usize = 250;
const UNFINISHED: usize = 60;
const MESSAGE: usize = 4 << 20;

pub(crate) async fn measure(client: &Client, gate: SocketAddr) -> Cost {
    let mut attackers = JoinSet::new();
    for _ in 0..SILENT {
        attackers.spawn(async move {
            let mut stream = connect("127.0.0.2", gate).await;
            let _written = stream.write_all(b"PRI * HTTP").await;
            std::future::pending::<()>().await;
        });
    }
    for _ in 0..UNFINISHED {
        attackers.spawn(unfinished(gate));
    }
    attackers.spawn(async move {
        loop {
            drop(connect("127.0.0.2", gate).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    // Until all have sent what they send.
    tokio::time::sleep(Duration::from_secs(1)).await;
    measure::measure(client).await
}

/// Sends all of a message but its end, again and again.
async fn unfinished(gate: SocketAddr) {
    let (mut client, connection) =
        h2::client::handshake(connect("127.0.0.3", gate).await).await.unwrap();
    tokio::spawn(connection);
    loop {
        let uri = format!("http://{gate}/shardwright.gate.v1.Gate/Call");
        let request = tonic::codegen::http::Request::post(uri);
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
        let [a, b, c, d] = u32::try_from(MESSAGE).unwrap().to_be_bytes();
        let message = [vec![0, a, b, c, d], vec![0; MESSAGE - 5]].concat();
        body.send_data(message.into(), false).unwrap();
        let _refused = answer.await;
    }
}

async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await.unwrap()
}
