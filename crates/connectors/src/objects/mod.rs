//! The objects of a store.

mod between;
mod open;
mod prefix;
mod probe;
mod walk;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use shardwright_contracts::limits::{MAX_INITIAL_SHARDS, MAX_KEY_SIZE};
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position, Quantity,
    SkipReason, SkipReports, SourceEstimate, SourceFingerprint,
};

use crate::filter::PathFilter;
use crate::io::blocking;
use crate::remainder::Remainder;
use crate::split::even_cuts;
use crate::url::ObjectUrl;
use crate::walk_cache::WalkCache;
use open::Opened;
use prefix::ObjectPrefix;
use walk::{FlatWalk, FolderWalk, Found, Walk};

/// Below every path: no path has control characters.
const KEY_SPACE_START: &[u8] = &[1];
/// Above every path: this byte is never in UTF-8.
const KEY_SPACE_END: &[u8] = &[0xff];

/// Concurrent HEAD requests.
const AT_ONCE: usize = 16;

/// Opens the store at a URL. Returns the store, the prefix in it, and the URL without secrets.
pub(crate) async fn open_store(
    url: ObjectUrl,
) -> Result<(Arc<dyn ObjectStore>, Path, String), ConnectorError> {
    let Opened { store, prefix, url, .. } = blocking(move || open::open(&url)).await?;
    Ok((store, prefix, url))
}

/// How a store is listed in key order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingOrder {
    /// It lists everything below a prefix in byte order, from any path.
    Bytes,
    /// It guarantees no order, so it is listed folder by folder. The entries of a folder are held
    /// in memory.
    Folders,
}

/// The objects of a store below a prefix. Keys are paths below the prefix.
///
/// S3 and Google Cloud Storage are listed in one pass from the start of a range. Azure, WebDAV and
/// local folders guarantee no byte order, and are listed folder by folder. Credentials come from
/// the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
///
/// Paths that `object_store` cannot represent (empty segments, control characters, local names that
/// are not UTF-8) fail the listing. Links in local folders are followed, unlike by a
/// [`TreeConnector`](super::TreeConnector).
///
/// Placeholders for folders (`a/`, empty) are not items. They are listed under the name `a`, so one
/// HEAD request per empty object distinguishes them.
pub struct ObjectConnector {
    bucket: Bucket,
    walks: WalkCache<Walk>,
    listed_at_ms: Option<u64>,
}

struct Bucket {
    store: Arc<dyn ObjectStore>,
    objects: ObjectPrefix,
    url: String,
    order: ListingOrder,
    filter: PathFilter,
}

impl ObjectConnector {
    /// Opens the store at a URL such as `s3://bucket/prefix`, `gs://bucket/prefix`,
    /// `az://container/prefix`, `https://host/folder` (WebDAV) or `file:///folder`.
    pub async fn open(url: impl Into<ObjectUrl>) -> Result<Self, ConnectorError> {
        let url = url.into();
        let Opened { store, prefix, url, order } = blocking(move || open::open(&url)).await?;
        Ok(Self::over(store, prefix, url, order))
    }

    /// Opens the store at a URL with settings of `object_store` by name, such as `aws_endpoint`,
    /// instead of the environment.
    pub async fn open_with(
        url: impl Into<ObjectUrl>,
        settings: Vec<(String, String)>,
    ) -> Result<Self, ConnectorError> {
        let url = url.into();
        let opened = blocking(move || open::open_with(&url, |_| settings)).await?;
        let Opened { store, prefix, url, order } = opened;
        Ok(Self::over(store, prefix, url, order))
    }

    /// The objects below `prefix` of an open store. `url` is its name in items and errors.
    pub fn with_store(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        url: impl Into<String>,
        order: ListingOrder,
    ) -> Result<Self, ConnectorError> {
        let url = url.into();
        match Path::parse(prefix) {
            Ok(prefix) => Ok(Self::over(store, prefix, url, order)),
            Err(error) => Err(ConnectorError::BadUrl { url, reason: error.to_string() }),
        }
    }

    fn over(store: Arc<dyn ObjectStore>, prefix: Path, url: String, order: ListingOrder) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let listed_at_ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
        let (objects, filter) = (ObjectPrefix::new(prefix), PathFilter::default());
        let bucket = Bucket { store, objects, url, order, filter };
        Self { bucket, walks: WalkCache::new(), listed_at_ms }
    }

    /// Restricts the items to objects that match a glob of `include`, or all if there is none, and
    /// no glob of `exclude`. A glob is a pattern of a `.gitignore` file without `!`, compared with
    /// paths below the prefix. A folder counts with everything below it.
    pub fn with_globs(
        mut self,
        include: &[String],
        exclude: &[String],
    ) -> Result<Self, ConnectorError> {
        self.bucket.filter = PathFilter::new(include, exclude)?;
        Ok(self)
    }

    /// The store, for handlers that read objects by the paths of items.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.bucket.store
    }

    /// The range of all possible paths.
    #[must_use]
    pub fn whole_range() -> KeyRange {
        KeyRange::new(KEY_SPACE_START, KEY_SPACE_END)
    }
}

impl Connector for ObjectConnector {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let remainder = Remainder::of(range, from.after.as_deref());
        self.bucket.read(Some(&self.walks), remainder, limit, usize::MAX).await
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        let remainder = Remainder::of(range, after);
        let page = self.bucket.look_ahead(&remainder).await?;
        let known = if page.ended { Quantity::Exact } else { Quantity::AtLeast };
        let bytes = page.items.iter().filter_map(|item| item.size).sum();
        Ok(SourceEstimate { items: known(page.items.len() as u64), bytes: known(bytes) })
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        self.bucket.propose_split(&Remainder::of(range, after), fraction).await
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        let whole = Self::whole_range();
        let wanted = wanted.min(MAX_INITIAL_SHARDS);
        let pieces = self.bucket.first_cuts(&Remainder::of(&whole, None), wanted).await?;
        Ok(whole.cut(even_cuts(&pieces, wanted)))
    }

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        let identity = format!("objects {}", self.bucket.url.replace(char::is_whitespace, "%20"));
        Ok(SourceFingerprint { identity, listed_at_ms: self.listed_at_ms })
    }
}

impl Bucket {
    /// Reads a page of the remainder. With a cache, it continues a cached walk and caches its own.
    /// After `listed_max` objects the page ends, even if it is empty.
    async fn read(
        &self,
        cache: Option<&WalkCache<Walk>>,
        remainder: Remainder,
        limit: PageLimit,
        listed_max: usize,
    ) -> Result<Page, ConnectorError> {
        let mut walk = match cache.and_then(|cache| cache.take(&remainder)) {
            Some(walk) => walk,
            None => match self.order {
                ListingOrder::Bytes => Walk::Flat(FlatWalk::begin(self, &remainder)),
                ListingOrder::Folders => Walk::Folders(FolderWalk::begin(self, &remainder).await?),
            },
        };
        let (mut page, mut left) = (Page::default(), listed_max);
        while page.items.is_empty() && !page.ended && left > 0 {
            self.fill(&mut page, &mut walk, &remainder, limit, &mut left).await?;
        }
        if let (Some(cache), Some(last), false) = (cache, page.items.last(), page.ended) {
            let (after, end) = (last.key.to_vec(), remainder.end().to_vec());
            cache.put(after, end, walk.footprint(), walk);
        }
        Ok(page)
    }

    async fn fill(
        &self,
        page: &mut Page,
        walk: &mut Walk,
        remainder: &Remainder,
        limit: PageLimit,
        left: &mut usize,
    ) -> Result<(), ConnectorError> {
        let mut found = Vec::new();
        let mut bytes = 0;
        page.ended = loop {
            if *left == 0 {
                break false;
            }
            let Some(one) = walk.next(self, remainder, &mut page.skipped).await? else {
                break true;
            };
            *left -= 1;
            if !self.filter.admits(one.key.as_bytes()) {
                continue;
            }
            if one.key.len() > MAX_KEY_SIZE {
                page.skipped.add(one.key.as_bytes(), SkipReason::TooLong, None);
                continue;
            }
            bytes += size_of::<Item>() + 2 * one.key.len();
            found.push(one);
            if limit.is_reached(found.len(), bytes) {
                break false;
            }
        };
        page.items = self.without_markers(found, &mut page.skipped).await?;
        Ok(())
    }

    /// The objects as items, without placeholders for folders.
    async fn without_markers(
        &self,
        found: Vec<Found>,
        skipped: &mut SkipReports,
    ) -> Result<Vec<Item>, ConnectorError> {
        let checked = stream::iter(found)
            .map(|one| async move {
                let is_marker = one.size == 0
                    && self.order == ListingOrder::Bytes
                    && !self.exists(&one.key).await?;
                Ok((one, is_marker))
            })
            .buffered(AT_ONCE)
            .collect::<Vec<Result<(Found, bool), ConnectorError>>>()
            .await;
        let mut items = Vec::with_capacity(checked.len());
        for result in checked {
            let (Found { key, size, modified_ms }, is_marker) = result?;
            if is_marker {
                skipped.add(key.as_bytes(), SkipReason::FolderMarker, None);
            } else {
                let url = format!("{}/{key}", self.url.trim_end_matches('/'));
                let payload = Payload::Object { path: self.objects.full(&key), url, modified_ms };
                items.push(Item { key: Bytes::from(key), size: Some(size), payload });
            }
        }
        Ok(items)
    }

    async fn exists(&self, key: &str) -> Result<bool, ConnectorError> {
        let Some(path) = self.objects.path(key) else {
            return Ok(false);
        };
        match self.store.head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed("look up an object of")(error)),
        }
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(object_store::Error) -> ConnectorError {
        let url = self.url.clone();
        move |error| {
            let transient = matches!(error, object_store::Error::Generic { .. });
            ConnectorError::ObjectStore { doing, url, transient, source: Box::new(error) }
        }
    }
}
