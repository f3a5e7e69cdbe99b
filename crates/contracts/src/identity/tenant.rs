use std::fmt;

use crate::canonical::{CanonicalBytes, CanonicalSink};

/// Isolation scope of everything below it; 32 bytes, usually a hash of the tenant's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId([u8; Self::SIZE]);

impl TenantId {
    /// Width in bytes.
    pub const SIZE: usize = 32;

    /// Wraps the raw bytes; every value is a valid id.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::SIZE] {
        &self.0
    }
}

/// Sixty-four lower-case hex digits.
impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantId({self})")
    }
}

impl CanonicalBytes for TenantId {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_raw(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_the_hex_of_all_bytes() {
        let mut bytes = [0; TenantId::SIZE];
        bytes[0] = 0xab;
        bytes[31] = 0x01;
        let tenant = TenantId::from_bytes(bytes);
        assert_eq!(tenant.as_bytes(), &bytes);
        assert_eq!(tenant.to_string(), format!("ab{}01", "00".repeat(30)));
        assert_eq!(format!("{tenant:?}"), format!("TenantId({tenant})"));
    }
}
