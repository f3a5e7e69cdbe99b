//! A custom source: the numbers below a bound, squared.
//!
//! `cargo run --release --example custom_source -- FOLDER COUNT`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use shardwright::{Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Position};
use shardwright::{Outcome, Shardwright};

/// The numbers below a bound. A key is a number in big-endian bytes, so keys sort like numbers.
struct Numbers(u64);

impl Connector for Numbers {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let first = number_at(&range.start_after(from));
        let numbers = first..self.0.min(number_at(&range.end));
        let items = numbers.map(|n| Item::row(n.to_be_bytes().to_vec(), n, n.to_string()));
        Ok(Page::take(items, limit))
    }
}

/// The first number whose key is at or after some bytes.
fn number_at(bytes: &[u8]) -> u64 {
    let mut key = [0; 8];
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(key).saturating_add(u64::from(bytes.len() > key.len()))
}

async fn square(folder: &str, count: u64) -> shardwright::Result<Outcome> {
    let shardwright = Shardwright::open(&format!("file:{folder}/state")).await?;
    let run = shardwright.run("squares").results(format!("{folder}/results"));
    run.source(Numbers(count))
        .each(async |item: Item| {
            let n = number_at(&item.key);
            Ok(format!("{n} {}\n", n * n))
        })
        .await
}

#[tokio::main]
async fn main() -> shardwright::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "squares".to_owned());
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    println!("{}", square(&folder, count).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use shardwright::conformance;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_tasks_square_every_number_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        let (one, other) = tokio::join!(square(folder, 5_000), square(folder, 5_000));
        for outcome in [one.unwrap(), other.unwrap()] {
            assert_eq!(outcome.to_string(), "5000 items done, 0 parked");
            let expected: String = (0..5_000).map(|n| format!("{n} {}\n", n * n)).collect();
            assert_eq!(std::fs::read_to_string(outcome.results.unwrap()).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn source_passes_the_connector_conformance_suite() {
        conformance::check(&Numbers(1_000)).await;
    }
}
