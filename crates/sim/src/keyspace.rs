//! A keyspace small enough to count every key.
//!
//! A *point* is a number. Its key begins with the tenant's tag, so a key of another tenant is
//! recognisable. Keys vary in length, so that the first byte alone does not decide their order.

/// A position in the keyspace.
pub type Point = u16;

/// Number of points. The key of this number is a valid end of a range.
pub const POINTS: Point = 160;

/// The key of a point.
#[must_use]
pub fn key(tag: u8, point: Point) -> Vec<u8> {
    let base = (point / 4) as u8 + 1;
    match point % 4 {
        0 => vec![tag, base],
        1 => vec![tag, base, 0],
        2 => vec![tag, base, 0, 7],
        _ => vec![tag, base, 9],
    }
}

/// The first point whose key is not below `key`, which need not be the key of a point.
#[must_use]
pub fn point_at_or_after(tag: u8, bound: &[u8]) -> Point {
    let (mut low, mut high) = (0, POINTS);
    while low < high {
        let middle = low + (high - low) / 2;
        if key(tag, middle).as_slice() < bound { low = middle + 1 } else { high = middle }
    }
    low
}

/// The points whose keys lie in `[start, end)`.
#[must_use]
pub fn points_in(tag: u8, start: &[u8], end: &[u8]) -> std::ops::Range<Point> {
    point_at_or_after(tag, start)..point_at_or_after(tag, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_their_points() {
        let keys: Vec<_> = (0..=POINTS).map(|point| key(b'A', point)).collect();
        assert!(keys.array_windows().all(|[left, right]| left < right));
    }

    #[test]
    fn keys_between_points_lead_to_the_next_point() {
        for point in 0..=POINTS {
            assert_eq!(point_at_or_after(b'A', &key(b'A', point)), point);
        }
        let mut after = key(b'A', 6);
        after.push(0);
        assert_eq!(point_at_or_after(b'A', &after), 7);
        assert_eq!(points_in(b'A', &key(b'A', 3), &key(b'A', 9)), 3..9);
        assert_eq!(points_in(b'A', b"B", b"C"), POINTS..POINTS);
    }
}
