//! The pieces of which keys are made.

use shardwright_contracts::TenantId;

/// Digits of an id.
pub(super) const ID_DIGITS: usize = 16;
/// Digits of a tenant.
pub(super) const TENANT_DIGITS: usize = 2 * TenantId::SIZE;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// One piece of a key.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Tenant(&'a TenantId),
    Id(u64),
}

impl Part<'_> {
    const fn len(self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Tenant(_) => TENANT_DIGITS,
            Self::Id(_) => ID_DIGITS,
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Tenant(tenant) => write_hex(tenant.as_bytes(), out),
            Self::Id(id) => write_hex(&id.to_be_bytes(), out),
        }
    }
}

/// Joins pieces in a buffer of just their length, which becomes a key without another copy.
pub(super) fn join(prefix: &str, parts: &[Part<'_>]) -> Vec<u8> {
    let len = parts.iter().fold(prefix.len(), |len, part| len + part.len());
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(prefix.as_bytes());
    for part in parts {
        part.write(&mut out);
    }
    out
}

fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|byte| [digit_of(byte >> 4), digit_of(byte & 0xf)]));
}

fn digit_of(nibble: u8) -> u8 {
    DIGITS.get(usize::from(nibble)).copied().unwrap_or_default()
}

/// Reads an id of exactly sixteen lower-case digits.
pub(super) fn read_id(text: &[u8]) -> Option<u64> {
    read_hex(text).map(u64::from_be_bytes)
}

/// Reads a tenant of exactly sixty-four lower-case digits.
pub(super) fn read_tenant(text: &[u8]) -> Option<TenantId> {
    read_hex(text).map(TenantId::from_bytes)
}

fn read_hex<const LEN: usize>(text: &[u8]) -> Option<[u8; LEN]> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    if pairs.len() != LEN {
        return None;
    }
    let mut bytes = [0; LEN];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value_of(*high)? << 4 | value_of(*low)?;
    }
    Some(bytes)
}

/// Lower case only: of two spellings of one id, one would be a key that nobody finds.
const fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
