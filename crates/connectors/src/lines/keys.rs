//! Keys of rows.

use shardwright_frontier::{KeyBuf, KeyEncoding, ManifestRowKey};

/// The keys of one file's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowKeys {
    manifest_id: u64,
    rows: u64,
}

impl RowKeys {
    pub(super) const LEN: usize = ManifestRowKey::ENCODED_LEN;

    /// The keys of a file with this digest. Files with other content have other keys.
    pub(super) fn new(digest: &[u8; 32], rows: u64) -> Self {
        let mut first = [0; 8];
        first.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
        Self { manifest_id: u64::from_be_bytes(first), rows }
    }

    pub(super) const fn manifest_id(&self) -> u64 {
        self.manifest_id
    }

    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn key(&self, row: u64) -> Vec<u8> {
        self.keys(std::iter::once(row))
    }

    /// The keys of many rows, concatenated.
    pub(super) fn keys(&self, rows: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut buffer = KeyBuf::new();
        let mut keys = Vec::with_capacity(rows.size_hint().0.saturating_mul(Self::LEN));
        for row in rows {
            buffer.clear();
            ManifestRowKey::new(self.manifest_id, row).encode_into(&mut buffer);
            keys.extend_from_slice(buffer.as_bytes());
        }
        keys
    }

    /// The first row whose key is not below `bound`, or the number of rows.
    pub(super) fn first_from(&self, bound: &[u8]) -> u64 {
        self.row_of(ManifestRowKey::first_from(bound))
    }

    /// The first row whose key is above `key`, or the number of rows.
    pub(super) fn first_after(&self, key: &[u8]) -> u64 {
        self.row_of(ManifestRowKey::first_after(key))
    }

    /// The first row of this file that is not before `first`, or the number of rows.
    fn row_of(&self, first: Option<ManifestRowKey>) -> u64 {
        match first {
            Some(first) if first.manifest_id < self.manifest_id => 0,
            Some(first) if first.manifest_id == self.manifest_id => first.row.min(self.rows),
            Some(_) | None => self.rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(first: u8) -> RowKeys {
        RowKeys::new(&[first; 32], 10)
    }

    #[test]
    fn a_row_is_found_by_its_key_and_by_bounds_beside_it() {
        for keys in [keys(0), keys(7), keys(0xff)] {
            for row in 0..10 {
                let key = keys.key(row);
                assert_eq!(keys.first_from(&key), row);
                assert_eq!(keys.first_after(&key), row + 1);
                let longer = [key.as_slice(), b"x"].concat();
                assert_eq!(
                    (keys.first_from(&longer), keys.first_after(&longer)),
                    (row + 1, row + 1)
                );
            }
            assert_eq!(keys.first_from(&[]), 0);
            assert_eq!(keys.first_from(&[0xff; 40]), 10);
        }
    }

    #[test]
    fn keys_of_another_file_are_outside_of_all_rows() {
        let keys = keys(7);
        assert_eq!(keys.first_from(&[6; 16]), 0);
        assert_eq!(keys.first_from(&[8; 16]), 10);
        assert_eq!(keys.first_from(&[7; 4]), 0, "a prefix is below its extensions");
    }
}
