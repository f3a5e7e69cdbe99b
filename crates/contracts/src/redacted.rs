use std::fmt;

/// Bytes that may be secret: printed as their length, never as their content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Redacted<'a>(pub &'a [u8]);

impl AsRef<[u8]> for Redacted<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_length_and_nothing_else() {
        assert_eq!(format!("{:?} {}", Redacted(b"secret"), Redacted(b"")), "<6 bytes> <0 bytes>");
    }
}
