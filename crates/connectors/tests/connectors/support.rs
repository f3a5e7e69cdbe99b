//! Helpers for the tests of all connectors.

use shardwright_worker::connector::{Connector, KeyRange, Page, PageLimit, Position};

/// Reads a range in one page.
pub(crate) async fn read_whole(connector: &impl Connector, range: &KeyRange) -> Page {
    let limit = PageLimit { bytes: usize::MAX, ..PageLimit::items(usize::MAX) };
    let page = connector.page(range, &Position::start(), limit).await.unwrap();
    assert!(page.ended);
    page
}
