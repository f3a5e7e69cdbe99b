use super::Keyspace;

/// Why a text cannot begin keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// It is too long.
    #[error("a key prefix of {size} bytes exceeds {max}")]
    TooLong {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// It has a character that is no letter, digit, `-`, `_`, `.` or `/`.
    #[error(
        "a key prefix has letters, digits, '-', '_', '.' and '/' only, and byte {position} is none"
    )]
    Character {
        /// How many bytes lie before it.
        position: usize,
    },
    /// It does not end in `/`, so that it would run into what follows.
    #[error("a key prefix must end in '/'")]
    Unfinished,
}

/// Checks the length first, then the characters, then the end.
pub(super) fn check(prefix: &str) -> Result<(), PrefixError> {
    let (size, max) = (prefix.len(), Keyspace::PREFIX_BYTES_MAX);
    if size > max {
        return Err(PrefixError::TooLong { size, max });
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if let Some(position) = prefix.bytes().position(|byte| !allowed(byte)) {
        return Err(PrefixError::Character { position });
    }
    if !prefix.is_empty() && !prefix.ends_with('/') {
        return Err(PrefixError::Unfinished);
    }
    Ok(())
}
