//! Walks through a store in key order.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::{ObjectMeta, ObjectStore};
use shardwright_worker::connector::{ConnectorError, SkipReason, SkipReports};

use super::Bucket;
use crate::remainder::Remainder;

/// An object that was found.
pub(super) struct Found {
    pub(super) key: String,
    pub(super) size: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub(super) modified_ms: Option<u64>,
}

/// A walk by the listing that suits the store.
pub(super) enum Walk {
    Flat(FlatWalk),
    Folders(FolderWalk),
}

impl Walk {
    pub(super) async fn next(
        &mut self,
        bucket: &Bucket,
        remainder: &Remainder,
        skipped: &mut SkipReports,
    ) -> Result<Option<Found>, ConnectorError> {
        match self {
            Self::Flat(walk) => walk.next(bucket, remainder, skipped).await,
            Self::Folders(walk) => walk.next(bucket, remainder, skipped).await,
        }
    }

    /// Approximate memory of the walk, in bytes.
    pub(super) fn footprint(&self) -> usize {
        match self {
            // One page of the store: a thousand objects.
            Self::Flat(_) => 1 << 18,
            Self::Folders(walk) => walk.footprint(),
        }
    }
}

/// One listing of everything, for stores that list in byte order.
pub(super) struct FlatWalk {
    listed: BoxStream<'static, object_store::Result<ObjectMeta>>,
    last: Option<String>,
}

impl FlatWalk {
    pub(super) fn begin(bucket: &Bucket, remainder: &Remainder) -> Self {
        let prefix = Some(bucket.objects.prefix());
        let listed = match bucket.objects.offset(remainder) {
            Some(offset) => bucket.store.list_with_offset(prefix, &offset),
            None => bucket.store.list(prefix),
        };
        Self { listed, last: None }
    }

    async fn next(
        &mut self,
        bucket: &Bucket,
        remainder: &Remainder,
        skipped: &mut SkipReports,
    ) -> Result<Option<Found>, ConnectorError> {
        while let Some(listed) = self.listed.next().await {
            let object = listed.map_err(bucket.failed("list"))?;
            let Some(key) = bucket.objects.key(&object.location) else {
                continue;
            };
            if self.last.as_deref().is_some_and(|last| key <= last) {
                // The placeholder `a/` of a folder is listed among its content, under the name `a`.
                if object.size == 0 {
                    skipped.add(key.as_bytes(), SkipReason::FolderMarker, None);
                    continue;
                }
                return Err(ConnectorError::OutOfOrder { url: bucket.url.clone() });
            }
            if !remainder.is_below_end(key.as_bytes()) {
                return Ok(None);
            }
            let key = key.to_owned();
            if remainder.contains(key.as_bytes()) {
                self.last = Some(key.clone());
                let modified_ms = modified_ms(&object);
                return Ok(Some(Found { key, size: object.size, modified_ms }));
            }
        }
        Ok(None)
    }
}

/// One listing per folder, for stores that list in any order.
pub(super) struct FolderWalk {
    folders: Vec<Folder>,
    remainder: Remainder,
}

struct Folder {
    /// The unread entries, in reverse order.
    entries: Vec<Entry>,
}

/// An object, or a folder, whose key has a trailing `/` and which has no size.
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) size: Option<u64>,
    modified_ms: Option<u64>,
}

fn modified_ms(object: &ObjectMeta) -> Option<u64> {
    u64::try_from(object.last_modified.timestamp_millis()).ok()
}

impl FolderWalk {
    pub(super) async fn begin(
        bucket: &Bucket,
        remainder: &Remainder,
    ) -> Result<Self, ConnectorError> {
        let root = Folder::list(bucket, "", remainder).await.map_err(bucket.failed("list"))?;
        Ok(Self { folders: vec![root], remainder: remainder.clone() })
    }

    async fn next(
        &mut self,
        bucket: &Bucket,
        remainder: &Remainder,
        skipped: &mut SkipReports,
    ) -> Result<Option<Found>, ConnectorError> {
        while let Some(folder) = self.folders.last_mut() {
            let Some(entry) = folder.entries.pop() else {
                self.folders.pop();
                continue;
            };
            if !remainder.is_below_end(entry.key.as_bytes()) {
                return Ok(None);
            }
            if let Some(size) = entry.size {
                let Entry { key, modified_ms, .. } = entry;
                return Ok(Some(Found { key, size, modified_ms }));
            }
            match Folder::list(bucket, &entry.key, &self.remainder).await {
                Ok(folder) => self.folders.push(folder),
                Err(error @ object_store::Error::NotFound { .. }) => {
                    let key = entry.key.as_bytes();
                    skipped.add(key, SkipReason::Vanished, Some(error.to_string()));
                }
                Err(error) => return Err(bucket.failed("list")(error)),
            }
        }
        Ok(None)
    }

    fn footprint(&self) -> usize {
        let entries = self.folders.iter().flat_map(|folder| &folder.entries);
        entries.map(|entry| size_of::<Entry>() + entry.key.len()).sum()
    }
}

impl Folder {
    async fn list(bucket: &Bucket, key: &str, remainder: &Remainder) -> object_store::Result<Self> {
        let mut entries = list_folder(bucket, key, remainder).await?;
        entries.reverse();
        Ok(Self { entries })
    }
}

/// The entries of a folder that the remainder reaches, in key order.
pub(super) async fn list_folder(
    bucket: &Bucket,
    key: &str,
    remainder: &Remainder,
) -> object_store::Result<Vec<Entry>> {
    let Bucket { store, objects, filter, .. } = bucket;
    let path = if key.is_empty() { Some(objects.prefix().clone()) } else { objects.path(key) };
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let listed = store.list_with_delimiter(Some(&path)).await?;
    let folders = listed.common_prefixes.iter().filter_map(|folder| {
        let key = format!("{}/", objects.key(folder)?);
        let is_excluded = filter.excludes(key.trim_end_matches('/').as_bytes(), true);
        (!is_excluded && remainder.reaches_into(key.as_bytes())).then_some(Entry {
            key,
            size: None,
            modified_ms: None,
        })
    });
    let objects = listed.objects.iter().filter_map(|object| {
        let found = objects.key(&object.location)?;
        // The placeholder of the folder has the same name as the folder.
        let inside = found.starts_with(key)
            && remainder.contains(found.as_bytes())
            && filter.admits(found.as_bytes());
        inside.then(|| Entry {
            key: found.to_owned(),
            size: Some(object.size),
            modified_ms: modified_ms(object),
        })
    });
    let mut entries: Vec<Entry> = folders.chain(objects).collect();
    entries.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    entries.dedup_by(|one, other| one.key == other.key);
    Ok(entries)
}
