//! Properties of a saved row index, for any bytes.
//!
//! The property tests and a fuzz target call the same functions.

use super::index::OFFSETS_MAX;
use super::saved::{decode, encode, header};
use super::source::Stamp;

const SEPARATOR: u8 = b'\n';
const LONGEST: usize = 100;

/// Decoding never panics, and accepts exactly what encoding writes. The bytes are decoded as they
/// are, and after a valid header with a valid hash.
pub(super) fn saved_index(data: &[u8], size: u64) {
    let stamp = Stamp { size, device: 1, inode: 2, modified: (3, 4), changed: (5, 6) };
    check(data, &stamp);
    let mut forged = header(&stamp, SEPARATOR, LONGEST);
    forged.extend_from_slice(data);
    let hash = blake3::hash(&forged);
    forged.extend_from_slice(hash.as_bytes());
    check(&forged, &stamp);
}

fn check(bytes: &[u8], stamp: &Stamp) {
    let Some(counted) = decode(bytes, stamp, SEPARATOR, LONGEST) else { return };
    assert_eq!(encode(stamp, SEPARATOR, LONGEST, &counted), bytes);
    let index = &counted.index;
    assert!(index.offsets.len() <= OFFSETS_MAX && index.size == stamp.size);
    for row in [0, 1, index.rows / 2, index.rows, u64::MAX] {
        let start = index.before_row(row);
        assert!(start.row <= row && start.row <= index.rows);
        assert!(start.offset < stamp.size || index.rows == 0);
        assert_eq!(index.before_offset(start.offset), start);
    }
}
