use std::time::{Duration, Instant};

use shardwright_api::wire::gate::CallRequest;
use tonic::Request;

use crate::{Client, PAYLOAD};

/// The cost of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) per_second: f64,
}

impl Cost {
    /// The best of several measurements, because other load only makes it worse.
    pub(crate) fn best(costs: Vec<Self>) -> Self {
        let least = |of: fn(&Self) -> f64| costs.iter().map(of).fold(f64::INFINITY, f64::min);
        let per_second = costs.iter().map(|cost| cost.per_second).fold(0.0, f64::max);
        Self { p50_us: least(|cost| cost.p50_us), p99_us: least(|cost| cost.p99_us), per_second }
    }
}

const ONE_BY_ONE: usize = 5_000;
const CALLERS: usize = 64;
const AT_ONCE: usize = 50_000;

/// Calls in sequence for the latency, many at once for the throughput.
pub(crate) async fn measure(client: &Client) -> Cost {
    let mut client = client.clone();
    for number in 0..500 {
        client.call(request(number)).await.unwrap();
    }
    let mut took = Vec::with_capacity(ONE_BY_ONE);
    for number in 0..ONE_BY_ONE {
        let began = Instant::now();
        client.call(request(number)).await.unwrap();
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let micros = |part: usize| {
        let at = took.len() * part / 100;
        took.get(at).map_or(f64::NAN, |one| one.as_secs_f64() * 1e6)
    };
    let began = Instant::now();
    let callers = (0..CALLERS).map(|caller| {
        let mut client = client.clone();
        tokio::spawn(async move {
            for number in 0..AT_ONCE / CALLERS {
                client.call(request(caller * 1_000 + number)).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let calls = (AT_ONCE / CALLERS * CALLERS) as f64;
    let per_second = calls / began.elapsed().as_secs_f64();
    Cost { p50_us: micros(50), p99_us: micros(99), per_second }
}

fn request(number: usize) -> Request<CallRequest> {
    let mut request = Request::new(CallRequest {
        object_type: "Echo".to_owned(),
        object: format!("object-{}", number % 1_000),
        method: "echo".to_owned(),
        payload: vec![7; PAYLOAD].into(),
        ..CallRequest::default()
    });
    request.set_timeout(Duration::from_secs(10));
    request
}
