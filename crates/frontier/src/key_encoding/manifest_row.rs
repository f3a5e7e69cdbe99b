use super::{KeyBuf, KeyEncoding};

/// A row of a manifest: sixteen bytes, the manifest's number and then the row's, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestRowKey {
    /// Which manifest.
    pub manifest_id: u64,
    /// Which of its rows.
    pub row: u64,
}

impl ManifestRowKey {
    /// Length of every encoded row key.
    pub const ENCODED_LEN: usize = 16;

    /// Names `row` of manifest `manifest_id`.
    #[must_use]
    pub const fn new(manifest_id: u64, row: u64) -> Self {
        Self { manifest_id, row }
    }
}

impl KeyEncoding for ManifestRowKey {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(&self.manifest_id.to_be_bytes());
        buf.extend_from_slice(&self.row.to_be_bytes());
    }
}

/// Reads an encoded row key; every string of sixteen bytes is one, and nothing else.
#[must_use]
pub fn decode_manifest_row_key(key: &[u8]) -> Option<ManifestRowKey> {
    let (manifest_id, rest) = key.split_first_chunk()?;
    let row = rest.try_into().ok()?;
    Some(ManifestRowKey::new(u64::from_be_bytes(*manifest_id), u64::from_be_bytes(row)))
}
