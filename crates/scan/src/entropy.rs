//! How random bytes look.

/// Shannon entropy in bits per byte, from 0 to 8.
#[expect(clippy::cast_precision_loss, reason = "no secret has 2^52 bytes")]
pub(crate) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_usize; 256];
    for &byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let total = bytes.len() as f64;
    let share = |count: usize| count as f64 / total;
    // Adding a zero keeps the entropy of a single letter from being shown as -0.
    -counts.iter().filter(|&&count| count > 0).map(|&c| share(c) * share(c).log2()).sum::<f64>()
        + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_the_bits_that_a_byte_tells() {
        for (bytes, bits) in [(&b""[..], 0.0), (b"aaaa", 0.0), (b"abab", 1.0), (b"abcd", 2.0)] {
            assert!((entropy(bytes) - bits).abs() < 1e-9, "{bytes:?}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert!((entropy(&all) - 8.0).abs() < 1e-9);
        assert!(!entropy(b"a").is_sign_negative());
    }
}
