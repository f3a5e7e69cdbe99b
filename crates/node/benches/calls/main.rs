//! The cost of a call through a gate to an object on a node, compared with two bare hops of the
//! same messages. All run on sockets of this machine.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench may use the real world"
)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and one that panics has failed"
)]

mod attacked;
mod bare;
mod measure;
mod moving;
mod ours;

use shardwright_api::wire::gate::gate_client::GateClient;
use tonic::transport::Channel;

use self::measure::Cost;

const PAYLOAD: usize = 64;
const ROUNDS: usize = 3;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let bare = bare::start().await;
    let (ours, gate) = ours::start().await;
    let mut costs: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
    // Alternating, so that other load on the machine affects both.
    for _ in 0..ROUNDS {
        for (client, costs) in [&bare, &ours].into_iter().zip(&mut costs) {
            costs.push(measure::measure(client).await);
        }
    }
    let attacked = attacked::measure(&ours, gate).await;
    let [bare, ours] = costs.map(Cost::best);
    println!(
        "{:<28} {:>12} {:>12} {:>14}",
        "64 bytes, there and back", "p50 µs", "p99 µs", "calls/s"
    );
    let rows = [
        ("two bare hops", &bare),
        ("gate, node, object", &ours),
        ("the same, attacked", &attacked),
    ];
    for (name, cost) in rows {
        let Cost { p50_us, p99_us, per_second } = cost;
        println!("{name:<28} {p50_us:>12.0} {p99_us:>12.0} {per_second:>14.0}");
    }
    println!(
        "{:<28} {:>12.2} {:>12.2} {:>14.2}",
        "ratio",
        ours.p50_us / bare.p50_us,
        ours.p99_us / bare.p99_us,
        ours.per_second / bare.per_second
    );
    moving::print().await;
}

type Client = GateClient<Channel>;
