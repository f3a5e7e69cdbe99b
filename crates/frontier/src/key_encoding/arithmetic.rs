use shardwright_contracts::limits::MAX_KEY_SIZE;

use super::KeyBuf;

/// The first key after all keys that start with `prefix`.
///
/// Trailing `0xFF` bytes cannot be incremented, so they are dropped and the byte before them is
/// incremented. Returns `None` and leaves `buf` unchanged if `prefix` is empty, consists of `0xFF`
/// only or is longer than a key.
pub fn prefix_successor<'b>(prefix: &[u8], buf: &'b mut KeyBuf) -> Option<&'b [u8]> {
    if prefix.len() > MAX_KEY_SIZE {
        return None;
    }
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    buf.copy_from_slice(prefix.get(..=last)?);
    *buf.last_mut()? += 1;
    Some(buf.as_bytes())
}

/// The next key after `key`: no key lies between them.
///
/// That is `key` with a zero byte appended or, if `key` has the maximum length, the next key of at
/// most that length. Returns `None` and leaves `buf` unchanged after the last key (maximum length,
/// all `0xFF`) and for anything longer than a key.
pub fn key_successor<'b>(key: &[u8], buf: &'b mut KeyBuf) -> Option<&'b [u8]> {
    if key.len() >= MAX_KEY_SIZE {
        return prefix_successor(key, buf);
    }
    buf.copy_from_slice(key);
    buf.extend_from_slice(&[0]);
    Some(buf.as_bytes())
}

/// A key strictly between `a` and `b`, about halfway.
///
/// Both are read as fractions with the length of the longer one, and the result is their mean,
/// rounded down. If rounding gives one of the two, the result is the key next to `a`. Returns
/// `None` and clears `out` if `a` is not below `b`, if nothing lies between them, or if one of them
/// is longer than a key.
pub fn byte_midpoint<'b>(a: &[u8], b: &[u8], out: &'b mut KeyBuf) -> Option<&'b [u8]> {
    out.clear();
    if a >= b || a.len() > MAX_KEY_SIZE || b.len() > MAX_KEY_SIZE {
        return None;
    }
    write_mean(a, b, out);
    if a < out.as_bytes() && out.as_bytes() < b {
        return Some(out.as_bytes());
    }
    // The borrow of a successful call would outlive a failed comparison, so compare again below.
    if key_successor(a, out).is_none_or(|next| next >= b) {
        out.clear();
        return None;
    }
    Some(out.as_bytes())
}

/// Writes half the sum of two fractions, cut to the longer one's length.
///
/// Both are read as words from the front, padded with zeros. The sum is built from the last word to
/// the first. Each word is halved one step late, because its highest bit is the lowest of the word
/// before it.
fn write_mean(a: &[u8], b: &[u8], out: &mut KeyBuf) {
    let (a, b) = (Words::of(a), Words::of(b));
    let mut carry = false;
    let mut after: Option<(&mut [u8; 8], u64)> = None;
    let groups = out.overwrite_in_groups(a.byte_len.max(b.byte_len));
    for (index, group) in groups.iter_mut().enumerate().rev() {
        let (sum, overflow) = a.word(index).carrying_add(b.word(index), carry);
        carry = overflow;
        if let Some((group, word)) = after {
            *group = (word >> 1 | sum << 63).to_be_bytes();
        }
        after = Some((group, sum));
    }
    if let Some((group, word)) = after {
        *group = (word >> 1 | u64::from(carry) << 63).to_be_bytes();
    }
}

/// A byte string as big-endian words, padded with zeros at the end.
struct Words<'a> {
    byte_len: usize,
    whole: &'a [[u8; 8]],
    tail: u64,
}

impl<'a> Words<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let (whole, rest) = bytes.as_chunks();
        let mut tail = [0; 8];
        tail.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        Self { byte_len: bytes.len(), whole, tail: u64::from_be_bytes(tail) }
    }

    fn word(&self, index: usize) -> u64 {
        match self.whole.get(index) {
            Some(word) => u64::from_be_bytes(*word),
            None if index == self.whole.len() => self.tail,
            None => 0,
        }
    }
}
