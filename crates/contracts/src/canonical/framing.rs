/// A value with one canonical byte form.
pub trait CanonicalBytes {
    /// Writes the canonical form of this value to `sink`.
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S);
}

/// Where canonical bytes go: a hasher, or a buffer.
pub trait CanonicalSink {
    /// Appends bytes as they are, without a length. Only for fixed widths.
    fn put_raw(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn put_u8(&mut self, value: u8) {
        self.put_raw(&[value]);
    }

    /// Appends four bytes, little-endian.
    fn put_u32(&mut self, value: u32) {
        self.put_raw(&value.to_le_bytes());
    }

    /// Appends eight bytes, little-endian.
    fn put_u64(&mut self, value: u64) {
        self.put_raw(&value.to_le_bytes());
    }

    /// Appends a byte string behind its length.
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_len(bytes.len());
        self.put_raw(bytes);
    }

    /// Appends a length or a count as four bytes.
    ///
    /// One that does not fit is written as all ones and then in eight bytes. No validated value
    /// is that long, but the framing stays unambiguous without a panic.
    fn put_len(&mut self, len: usize) {
        match u32::try_from(len) {
            Ok(short) if short != u32::MAX => self.put_u32(short),
            _ => {
                self.put_u32(u32::MAX);
                self.put_u64(len as u64);
            }
        }
    }

    /// Appends an optional byte string: a presence byte, then the string if there is one.
    fn put_optional_bytes(&mut self, bytes: Option<&[u8]>) {
        self.put_u8(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.put_bytes(bytes);
        }
    }
}

impl CanonicalSink for Vec<u8> {
    fn put_raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    }

    #[test]
    fn integers_are_little_endian() {
        assert_eq!(written(|s| s.put_u8(0xab)), [0xab]);
        assert_eq!(written(|s| s.put_u32(0x0102_0304)), [4, 3, 2, 1]);
        assert_eq!(written(|s| s.put_u64(0x0102_0304_0506_0708)), [8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn byte_strings_carry_their_length() {
        assert_eq!(written(|s| s.put_bytes(b"")), [0, 0, 0, 0]);
        assert_eq!(written(|s| s.put_bytes(b"ab")), [2, 0, 0, 0, b'a', b'b']);
    }

    #[test]
    fn absent_and_empty_are_told_apart() {
        assert_eq!(written(|s| s.put_optional_bytes(None)), [0]);
        assert_eq!(written(|s| s.put_optional_bytes(Some(b""))), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_length_beyond_four_bytes_is_escaped_not_cut() {
        let longest_short = u32::MAX as usize - 1;
        assert_eq!(written(|s| s.put_len(longest_short)), [0xfe, 0xff, 0xff, 0xff]);
        for len in [u32::MAX as usize, u32::MAX as usize + 1] {
            let mut expected = vec![0xff; 4];
            expected.extend_from_slice(&(len as u64).to_le_bytes());
            assert_eq!(written(|s| s.put_len(len)), expected);
        }
    }
}
