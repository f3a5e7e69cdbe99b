use shardwright_connectors::{ObjectUrl, without_credentials};

/// No text makes the redaction panic, and no text hides a password from it. An `@` in a password
/// ends it, and a space ends a URL.
pub(crate) fn redaction(text: &str) {
    let _any = (ObjectUrl::new(text), without_credentials(text));
    let middle = text.replace(|letter: char| letter == '@' || letter.is_whitespace(), "");
    let url = format!("https://user:SECRET{middle}SECRET@host/path");
    assert_eq!(ObjectUrl::new(&url).as_str(), "https://host/path");
    let shown = without_credentials(&format!("'{url}' is refused"));
    assert_eq!(shown, "'https://host/path' is refused");
}
