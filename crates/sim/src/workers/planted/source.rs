use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, Quantity, SourceEstimate,
};

use super::{Doctored, Plant};
use crate::workers::source::{Numbers, first_at, key};

/// Which items are treated wrongly.
const EACH: u64 = 13;

impl Connector for Doctored<Numbers> {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let mut page = self.inner.page(range, from, limit).await?;
        match self.plant {
            Some(Plant::ItemSkipped) if page.items.len() > 1 => {
                page.items.retain(|item| !first_at(&item.key).is_multiple_of(EACH));
            }
            Some(Plant::ItemRepeated) if from.after.is_some() && !page.items.is_empty() => {
                let before = from.after.as_deref().map(first_at).unwrap_or_default();
                let again = Position::behind(key(before.saturating_sub(1)));
                if before > first_at(&range.start) {
                    let limit = PageLimit { items: limit.items + 1, ..limit };
                    return self.inner.page(range, &again, limit).await;
                }
            }
            Some(Plant::SourceStuck) => {
                let is_stuck = |number: u64| number.is_multiple_of(EACH);
                if page.items.iter().any(|item| is_stuck(first_at(&item.key))) {
                    let source = "planted".into();
                    return Err(ConnectorError::Other { transient: false, source });
                }
            }
            _ => {}
        }
        Ok(page)
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        let estimate = self.inner.estimate(range, after).await?;
        Ok(match self.plant {
            Some(Plant::NothingLeft) => SourceEstimate { items: Quantity::Exact(0), ..estimate },
            _ => estimate,
        })
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let proposed = self.inner.propose_split(range, after, fraction).await?;
        Ok(match (self.plant, after) {
            // What was handed out last may still be worked on.
            (Some(Plant::SplitInHand), Some(after)) if proposed.is_some() => Some(after.to_vec()),
            _ => proposed,
        })
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        self.inner.initial_ranges(wanted).await
    }
}
