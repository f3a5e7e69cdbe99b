//! Passwords in URLs, also in malformed ones.

use proptest::prelude::*;

use crate::checks;

proptest! {
    #[test]
    fn no_password_is_shown(letters in "[a-z0-9:/?#@%'\"`\\[\\]. ]{0,12}", any in ".{0,40}") {
        checks::redaction::redaction(&letters);
        checks::redaction::redaction(&any);
    }
}
