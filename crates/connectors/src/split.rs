//! Cuts of a list of weighted pieces.

/// A piece of the key space: from its key to the key of the next piece.
pub(crate) struct Piece {
    pub(crate) key: Vec<u8>,
    pub(crate) weight: u64,
}

/// The piece before which about `fraction` of the weight lies. Never the first.
pub(crate) fn nearest_cut(pieces: &[Piece], fraction: f64) -> Option<usize> {
    let target = share(total(pieces), fraction);
    let mut before = 0_u64;
    let mut best: Option<(u64, usize)> = None;
    for (at, pair) in pieces.windows(2).enumerate() {
        before = before.saturating_add(pair.first()?.weight);
        let miss = before.abs_diff(target);
        if best.is_none_or(|(least, _)| miss < least) {
            best = Some((miss, at + 1));
        }
    }
    best.map(|(_, at)| at)
}

/// Keys of pieces, rising, that cut the list into at most `wanted` parts of similar weight.
pub(crate) fn even_cuts(pieces: &[Piece], wanted: usize) -> Vec<Vec<u8>> {
    let total = u128::from(total(pieces));
    let wanted = wanted.max(1) as u128;
    let mut cuts = Vec::new();
    let mut before = 0_u128;
    let mut part = 1;
    for (at, piece) in pieces.iter().enumerate() {
        // The next part starts where half of this piece would be beyond the border.
        let middle = before + u128::from(piece.weight) / 2;
        if at > 0 && part < wanted && middle * wanted >= total * part {
            cuts.push(piece.key.clone());
            // A heavy piece may fill several parts.
            part = (middle * wanted / total.max(1) + 1).max(part + 1);
        }
        before += u128::from(piece.weight);
    }
    cuts
}

/// The given share of a total. A fraction that is not finite counts as a half.
pub(crate) fn share(total: u64, fraction: f64) -> u64 {
    let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.5 };
    (total as f64 * fraction) as u64
}

fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(weights: &[u64]) -> Vec<Piece> {
        let number = |(at, weight): (usize, &u64)| Piece { key: vec![at as u8], weight: *weight };
        weights.iter().enumerate().map(number).collect()
    }

    #[test]
    fn the_cut_is_nearest_to_the_fraction_by_weight() {
        assert_eq!(nearest_cut(&pieces(&[1, 1, 1, 1]), 0.5), Some(2));
        assert_eq!(nearest_cut(&pieces(&[1, 1, 1, 1]), 0.0), Some(1));
        assert_eq!(nearest_cut(&pieces(&[1, 1, 1, 1]), 1.0), Some(3));
        assert_eq!(nearest_cut(&pieces(&[1, 1, 100]), 0.5), Some(2));
        assert_eq!(nearest_cut(&pieces(&[100, 1, 1]), 0.5), Some(1));
        assert_eq!(nearest_cut(&pieces(&[9, 1, 1, 1]), f64::NAN), Some(1));
        assert_eq!(nearest_cut(&pieces(&[u64::MAX, u64::MAX]), 0.5), Some(1));
    }

    #[test]
    fn a_single_piece_cannot_be_cut() {
        assert_eq!(nearest_cut(&pieces(&[5]), 0.5), None);
        assert_eq!(nearest_cut(&[], 0.5), None);
    }

    #[test]
    fn even_cuts_give_at_most_the_wanted_parts() {
        assert_eq!(even_cuts(&pieces(&[1; 8]), 4), [[2], [4], [6]]);
        assert_eq!(even_cuts(&pieces(&[1; 3]), 100), [[1], [2]]);
        assert_eq!(even_cuts(&pieces(&[100, 1, 1]), 4), [[1]]);
        assert!(even_cuts(&pieces(&[1; 8]), 1).is_empty() && even_cuts(&[], 4).is_empty());
        assert!(even_cuts(&pieces(&[0; 4]), 4).len() < 4);
    }
}
