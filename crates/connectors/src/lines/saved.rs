//! The row index in a file, so that a resumed run does not read its source again.
//!
//! All integers are little-endian: the magic bytes with the version, the separator, the source's
//! stamp, its digest, the number of rows, the stride, the number of offsets, the offsets, and the
//! BLAKE3 hash of everything before. Any other file is ignored.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::index::{OFFSETS_MAX, RowIndex};
use super::source::Stamp;
use crate::files::open_regular;

const MAGIC: &[u8; 8] = b"swrows\0\x01";
const HASH_LEN: usize = 32;
/// A second write within one tick of the file system's clock would be invisible.
const SETTLED_SECONDS: i64 = 2;

/// The result of a pass over a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) digest: [u8; 32],
    pub(super) index: RowIndex,
}

/// Loads an index, if it is complete and of this file.
pub(super) fn load(path: &Path, stamp: &Stamp, separator: u8, longest: usize) -> Option<Counted> {
    let most = MAGIC.len() + 200 + OFFSETS_MAX * 8 + HASH_LEN;
    let mut bytes = Vec::new();
    open_regular(path).ok()?.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() > most {
        return None;
    }
    decode(&bytes, stamp, separator, longest)
}

/// Saves an index, unless the file was written to so recently that a change could be invisible.
pub(super) fn save(
    path: &Path,
    stamp: &Stamp,
    separator: u8,
    longest: usize,
    counted: &Counted,
    now: SystemTime,
) -> io::Result<()> {
    let now = now.duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let now = i64::try_from(now.as_secs()).map_err(io::Error::other)?;
    if stamp.modified.0.max(stamp.changed.0) > now - SETTLED_SECONDS {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(&encode(stamp, separator, longest, counted))?;
    file.persist(path)?;
    Ok(())
}

pub(super) fn encode(stamp: &Stamp, separator: u8, longest: usize, counted: &Counted) -> Vec<u8> {
    let Counted { digest, index } = counted;
    let mut bytes = header(stamp, separator, longest);
    bytes.extend_from_slice(digest);
    for number in [index.rows, index.stride, index.offsets.len() as u64] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for offset in &index.offsets {
        bytes.extend_from_slice(&offset.to_le_bytes());
    }
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

/// The fields that must be equal for an index to be valid.
pub(super) fn header(stamp: &Stamp, separator: u8, longest: usize) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(separator);
    for number in [stamp.size, stamp.device, stamp.inode, longest as u64] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for (seconds, nanoseconds) in [stamp.modified, stamp.changed] {
        bytes.extend_from_slice(&seconds.to_le_bytes());
        bytes.extend_from_slice(&nanoseconds.to_le_bytes());
    }
    bytes
}

pub(super) fn decode(
    bytes: &[u8],
    stamp: &Stamp,
    separator: u8,
    longest: usize,
) -> Option<Counted> {
    let (content, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH_LEN)?)?;
    if hash != blake3::hash(content).as_bytes() {
        return None;
    }
    let body = content.strip_prefix(header(stamp, separator, longest).as_slice())?;
    let (digest, mut rest) = body.split_first_chunk::<32>()?;
    let mut number = || {
        let (first, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        Some(u64::from_le_bytes(*first))
    };
    let (rows, stride, count) = (number()?, number()?, number()?);
    if count != rows.div_ceil(stride.max(1)) || count > OFFSETS_MAX as u64 {
        return None;
    }
    let mut offsets = Vec::new();
    for _ in 0..count {
        offsets.push(number()?);
    }
    let rising = offsets.windows(2).all(|pair| pair.first() < pair.last());
    // The first row starts the file, and the last one has at least one byte.
    let starts = offsets.first().is_none_or(|first| *first == 0);
    let ends = offsets.last().is_none_or(|last| *last < stamp.size) && rows <= stamp.size;
    let whole = rest.is_empty() && rising && starts && ends && stride.is_power_of_two();
    let index = RowIndex { size: stamp.size, rows, stride, offsets };
    whole.then_some(Counted { digest: *digest, index })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::lines::checks;

    fn stamp() -> Stamp {
        Stamp { size: 9, device: 1, inode: 2, modified: (3, 4), changed: (5, 6) }
    }

    fn counted() -> Counted {
        let index = RowIndex { size: 9, rows: 5, stride: 2, offsets: vec![0, 3, 8] };
        Counted { digest: [7; 32], index }
    }

    #[test]
    fn an_index_is_valid_for_the_same_file_only() {
        let bytes = encode(&stamp(), b'\n', 10, &counted());
        assert_eq!(decode(&bytes, &stamp(), b'\n', 10), Some(counted()));
        assert_eq!(decode(&bytes, &stamp(), 0, 10), None);
        assert_eq!(decode(&bytes, &stamp(), b'\n', 11), None);
        for other in [
            Stamp { size: 10, ..stamp() },
            Stamp { inode: 3, ..stamp() },
            Stamp { modified: (3, 5), ..stamp() },
            Stamp { changed: (6, 6), ..stamp() },
        ] {
            assert_eq!(decode(&bytes, &other, b'\n', 10), None);
        }
    }

    #[test]
    fn the_format_is_fixed() {
        let bytes = encode(&stamp(), b'\n', 10, &counted());
        let numbers = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let mut expected = b"swrows\0\x01\n".to_vec();
        expected.extend(numbers(&[9, 1, 2, 10, 3, 4, 5, 6]));
        expected.extend([7; 32]);
        expected.extend(numbers(&[5, 2, 3, 0, 3, 8]));
        let hash = blake3::hash(&expected);
        expected.extend(hash.as_bytes());
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_damaged_index_is_rejected() {
        let bytes = encode(&stamp(), b'\n', 10, &counted());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged, &stamp(), b'\n', 10), None, "byte {at}");
            assert_eq!(decode(&bytes[..at], &stamp(), b'\n', 10), None, "cut at {at}");
        }
    }

    #[test]
    fn an_index_beyond_its_file_is_rejected() {
        for (rows, offsets) in [(5, vec![1, 3, 8]), (5, vec![0, 3, 9]), (10, vec![0, 2, 4, 6, 8])] {
            let index = RowIndex { size: 9, rows, stride: 2, offsets };
            let bytes = encode(&stamp(), b'\n', 10, &Counted { digest: [7; 32], index });
            assert_eq!(decode(&bytes, &stamp(), b'\n', 10), None, "{rows}");
        }
    }

    fn offsets() -> impl Strategy<Value = BTreeSet<u64>> {
        prop::collection::btree_set(prop_oneof![Just(0), 0..40_u64, any::<u64>()], 0..6)
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_row_index_or_none(
            size in prop_oneof![0..40_u64, any::<u64>()],
            stride in prop_oneof![Just(1), Just(2), Just(1 << 63), any::<u64>()],
            offsets in offsets(),
            rows in prop_oneof![0..12_u64, any::<u64>()],
            any_bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            checks::saved_index(&any_bytes, size);
            let mut body = vec![7; 32];
            for number in [rows, stride, offsets.len() as u64] {
                body.extend(number.to_le_bytes());
            }
            body.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
            checks::saved_index(&body, size);
        }
    }
}
