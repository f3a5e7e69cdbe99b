//! Finding many words at once by their first three letters.
//!
//! An automaton has to know where a byte led before it can look at the next. Three letters are a
//! number, and whether a word begins with them is a bit; nothing has to be waited for. On text
//! with few words in it, that is more than twice as fast.

/// How many bits tell which letters words begin with. The table fits the nearest cache.
const HASHES: usize = 1 << 16;
const NO_CHAIN: u16 = u16::MAX;

/// Words of at least three bytes.
#[derive(Debug)]
pub(super) struct Triples {
    /// Whether some word begins with letters of a hash.
    begins: Box<[u64]>,
    /// Which chain has the words of a hash.
    chains_of: Box<[u16]>,
    /// Words whose letters have the same hash, by number.
    chains: Vec<Vec<(usize, Box<[u8]>)>>,
}

impl Triples {
    /// Gets words ready, if all are long enough and not too many.
    pub(super) fn new(words: &[&str]) -> Option<Self> {
        let mut triples = Self {
            begins: vec![0; HASHES / 64].into(),
            chains_of: vec![NO_CHAIN; HASHES].into(),
            chains: Vec::new(),
        };
        for (number, word) in words.iter().enumerate() {
            let word = word.as_bytes();
            let &[first, second, third, ..] = word else { return None };
            let hash = hash([first, second, third].into_iter().fold(0, shift));
            *triples.begins.get_mut(hash / 64)? |= 1 << (hash % 64);
            let chain = triples.chains_of.get_mut(hash)?;
            if *chain == NO_CHAIN {
                *chain = u16::try_from(triples.chains.len()).ok().filter(|it| *it != NO_CHAIN)?;
                triples.chains.push(Vec::new());
            }
            triples.chains.get_mut(usize::from(*chain))?.push((number, word.into()));
        }
        Some(triples)
    }

    /// Calls back for each word that is there, in any case of letters, by where it begins: with
    /// its number, beginning and end.
    pub(super) fn find(&self, bytes: &[u8], mut found: impl FnMut(usize, usize, usize)) {
        let mut letters = bytes.iter().take(2).copied().fold(0, shift);
        for (start, &byte) in bytes.iter().skip(2).enumerate() {
            letters = shift(letters, byte);
            let hash = hash(letters);
            let bits = self.begins.get(hash / 64).copied().unwrap_or_default();
            if bits >> (hash % 64) & 1 == 1 {
                self.compare(bytes, start, hash, &mut found);
            }
        }
    }

    fn compare(
        &self,
        bytes: &[u8],
        start: usize,
        hash: usize,
        found: &mut impl FnMut(usize, usize, usize),
    ) {
        let chain = self.chains_of.get(hash).and_then(|chain| self.chains.get(usize::from(*chain)));
        for (number, word) in chain.into_iter().flatten() {
            let end = start + word.len();
            if bytes.get(start..end).is_some_and(|bytes| bytes.eq_ignore_ascii_case(word)) {
                found(*number, start, end);
            }
        }
    }
}

/// The last three letters after one more. Upper and lower case are the same; so are some other
/// bytes, which comparing tells apart.
const fn shift(letters: u32, byte: u8) -> u32 {
    (letters << 8 | (byte | 0x20) as u32) & 0xff_ffff
}

const fn hash(letters: u32) -> usize {
    (letters.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_words_are_left_to_others() {
        assert!(Triples::new(&["abc", "ab"]).is_none());
        assert!(Triples::new(&[]).is_some());
    }

    proptest! {
        #[test]
        fn every_word_is_found_wherever_it_is(
            words in prop::collection::btree_set("[a-c_@`]{3,5}", 0..12),
            text in "[a-cA-C_@`\u{e9}]{0,300}",
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (lower, mut expected) = (text.to_ascii_lowercase(), Vec::new());
            for start in 0..lower.len() {
                for (number, word) in words.iter().enumerate() {
                    if lower.as_bytes()[start..].starts_with(word.as_bytes()) {
                        expected.push((start, number, start + word.len()));
                    }
                }
            }
            let mut found = Vec::new();
            let triples = Triples::new(&words).unwrap();
            triples.find(text.as_bytes(), |number, start, end| found.push((start, number, end)));
            prop_assert!(found.is_sorted_by_key(|(start, ..)| *start));
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
