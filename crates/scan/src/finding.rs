//! What is told of a secret.

use std::fmt;

use serde::{Deserialize, Serialize};

/// From how many bytes on a redacted secret keeps its first four.
const LONG: usize = 16;

/// What was found in one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileReport {
    /// The findings, by where they begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// How many more there are than are kept of one file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Why the file's content was not looked at, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Skipped>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why a file's content was not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// It is not text.
    Binary,
    /// An allowlist names its path.
    Allowed,
    /// It is gone.
    Vanished,
    /// It may not be read.
    Unreadable,
}

/// A secret, or a file that ought not to be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: String,
    /// What it has in common with the same secret elsewhere.
    pub fingerprint: Fingerprint,
    /// Where in the file; none if it is the file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// The secret, as far as it is shown.
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
    /// The column behind its last character.
    pub end_column: u64,
    /// Where it begins, in bytes from the beginning of the file.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
}

/// Names a secret without telling it: a digest of the rule and the secret.
///
/// Whoever can guess a secret can tell by it that the guess is right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Of what a rule found.
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

/// A text is no fingerprint.
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

/// Whether secrets are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrecy {
    /// Of a long one the beginning, which names its kind; of a short one nothing.
    #[default]
    Redacted,
    /// All of it.
    Shown,
}

impl Secrecy {
    /// What is shown of a secret.
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
    fn a_redacted_secret_tells_at_most_its_first_four_bytes() {
        assert_eq!(Secrecy::Redacted.show(b"hunter2hunter2"), "\u{2026} (14 bytes)");
        assert_eq!(Secrecy::Redacted.show(b"AKIA0123456789012345"), "AKIA\u{2026} (20 bytes)");
        assert_eq!(Secrecy::Redacted.show(&[0xff; 16]), "\\xff\\xff\\xff\\xff\u{2026} (16 bytes)");
        assert_eq!(Secrecy::Shown.show(b"hunter2\xff"), "hunter2\u{fffd}");
    }

    #[test]
    fn a_fingerprint_depends_on_rule_and_secret_and_survives_being_written() {
        let one = Fingerprint::new("a", b"b");
        assert_ne!(one, Fingerprint::new("ab", b""));
        assert_ne!(one, Fingerprint::new("a", b"c"));
        assert_eq!(Fingerprint::try_from(one.to_string()), Ok(one));
        for wrong in ["", "0", "+0000000000000000000000000000000", &"g".repeat(32)] {
            assert!(Fingerprint::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
