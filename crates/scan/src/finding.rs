//! Findings, and how much of a secret they show.

use std::fmt;

use serde::{Deserialize, Serialize};

/// From this length on, a redacted secret keeps its first four bytes.
const LONG: usize = 16;

/// The findings of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileReport {
    /// The findings, by their start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Number of findings beyond the limit of a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Why the content of the file was not scanned, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Skipped>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why the content of a file was not scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// It is binary.
    Binary,
    /// An allowlist excludes its path.
    Allowed,
    /// It vanished.
    Vanished,
    /// It may not be read.
    Unreadable,
}

/// A secret, or a suspicious file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: String,
    /// Equal for the same rule and secret in any file.
    pub fingerprint: Fingerprint,
    /// The part of the file. None if the file itself is the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// The secret, redacted or not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
    /// Bits per byte of the secret.
    #[serde(default)]
    pub entropy: f32,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// The line of its first character, counted from 1.
    pub line: u64,
    /// The column of its first character, in Unicode characters, counted from 1.
    pub column: u64,
    /// The line of its last character.
    pub end_line: u64,
    /// The column after its last character.
    pub end_column: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Identifies a secret without showing it: a digest of the rule and the secret.
///
/// It confirms a guess of the secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of a secret that a rule found.
    #[must_use]
    pub fn new(rule: &str, secret: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("shardwright/scan/v1/fingerprint");
        hasher.update(&(rule.len() as u64).to_le_bytes());
        hasher.update(rule.as_bytes());
        hasher.update(secret);
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

/// The text is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 32 hexadecimal digits")]
pub struct NoFingerprint;

impl TryFrom<String> for Fingerprint {
    type Error = NoFingerprint;

    fn try_from(text: String) -> Result<Self, NoFingerprint> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&text, 16).map_err(|_| NoFingerprint)?;
        if is_hex { Ok(Self(number.to_be_bytes())) } else { Err(NoFingerprint) }
    }
}

/// How much of a secret is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrecy {
    /// The first bytes of a long secret, which show its kind. Nothing of a short one.
    #[default]
    Redacted,
    /// The whole secret.
    Shown,
}

impl Secrecy {
    /// The secret as shown.
    #[must_use]
    pub fn show(self, secret: &[u8]) -> String {
        match self {
            Self::Shown => String::from_utf8_lossy(secret).into_owned(),
            Self::Redacted => {
                let kept = if secret.len() >= LONG { secret.get(..4) } else { None };
                let kept = kept.unwrap_or_default().escape_ascii();
                format!("{kept}\u{2026} ({} bytes)", secret.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redacted_secret_shows_at_most_four_bytes() {
        assert_eq!(Secrecy::Redacted.show(b"hunter2hunter2"), "\u{2026} (14 bytes)");
        assert_eq!(Secrecy::Redacted.show(b"AKIA0123456789012345"), "AKIA\u{2026} (20 bytes)");
        assert_eq!(Secrecy::Redacted.show(&[0xff; 16]), "\\xff\\xff\\xff\\xff\u{2026} (16 bytes)");
        assert_eq!(Secrecy::Shown.show(b"hunter2\xff"), "hunter2\u{fffd}");
    }

    #[test]
    fn a_fingerprint_depends_on_rule_and_secret_and_round_trips() {
        let one = Fingerprint::new("a", b"b");
        assert_ne!(one, Fingerprint::new("ab", b""));
        assert_ne!(one, Fingerprint::new("a", b"c"));
        assert_eq!(Fingerprint::try_from(one.to_string()), Ok(one));
        for wrong in ["", "0", "+0000000000000000000000000000000", &"g".repeat(32)] {
            assert!(Fingerprint::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
