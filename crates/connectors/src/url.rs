//! URLs of object stores, and the credentials in them.
//!
//! A URL may contain credentials: `user:password@`, or a query such as `?sig=…`. They are split off
//! here, where a URL enters the program. Everything else gets the rest of the URL. Records,
//! receipts, messages and errors never contain credentials.

use std::fmt;

/// Schemes in which a container's name is before the `@`.
const WITH_CONTAINER: [&str; 5] = ["abfs", "abfss", "adl", "az", "azure"];

/// The URL of an object store. Its text has no credentials, and neither has its `Debug` output.
#[derive(Clone)]
pub struct ObjectUrl {
    text: String,
    #[cfg_attr(not(feature = "objects"), allow(dead_code, reason = "only object stores use them"))]
    credentials: Option<Credentials>,
}

/// User and password of a URL, only for the process that got them.
#[derive(Clone)]
#[cfg_attr(not(feature = "objects"), allow(dead_code, reason = "only object stores use them"))]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl ObjectUrl {
    /// Splits a URL from its credentials. A query and a fragment are dropped: no store uses them.
    ///
    /// A `:` without a port shows that an `@` behind it ends a password, even one with letters that
    /// end a host. Everything before such an `@` is dropped.
    #[must_use]
    pub fn new(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let separator = if scheme.is_empty() { "" } else { "://" };
        let (authority, others) = rest.split_at(before(rest, &['/', '?', '#']).len());
        let host = authority.rsplit('@').next().unwrap_or_default();
        if !has_valid_port(host)
            && let Some((_, after)) = others.rsplit_once('@')
        {
            let text = format!("{scheme}{separator}{}", before(after, &['?', '#']));
            return Self { text, credentials: None };
        }
        let (url, rest) = (before(url, &['?', '#']), before(rest, &['?', '#']));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let Some((given, host)) = authority.rsplit_once('@') else {
            return Self { text: url.to_owned(), credentials: None };
        };
        let (user, password) = given.split_once(':').unwrap_or((given, ""));
        if WITH_CONTAINER.contains(&scheme) {
            let text = format!("{scheme}{separator}{user}@{host}{path}");
            return Self { text, credentials: None };
        }
        let text = format!("{scheme}{separator}{host}{path}");
        let decoded = |text: &str| String::from_utf8_lossy(&percent_decoded(text)).into_owned();
        let credentials = Credentials { user: decoded(user), password: decoded(password) };
        Self { text, credentials: Some(credentials) }
    }

    /// The URL without credentials.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[cfg(feature = "objects")]
    pub(crate) const fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectUrl").field(&self.text).finish()
    }
}

/// Two URLs are equal if they name the same objects, with any credentials.
impl PartialEq for ObjectUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ObjectUrl {}

impl From<&str> for ObjectUrl {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for ObjectUrl {
    fn from(url: String) -> Self {
        Self::new(&url)
    }
}

/// The part of a text before the first of these letters.
fn before<'a>(text: &'a str, ends: &[char]) -> &'a str {
    text.split(ends).next().unwrap_or_default()
}

/// Whether a host has a numeric port, or none.
fn has_valid_port(host: &str) -> bool {
    // An IPv6 address has colons in its brackets.
    let address = host.strip_prefix('[').and_then(|address| address.split_once(']'));
    let port = address.map_or(host, |(_, after)| after).split_once(':').map(|(_, port)| port);
    port.is_none_or(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Removes credentials from all URLs in a text. One that is misspelled may lose more.
#[must_use]
pub fn without_credentials(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(cleaned).collect()
}

/// Removes credentials from all URLs in a word.
fn cleaned(word: &str) -> String {
    let bare = word.trim_end_matches(|end: char| end.is_whitespace() || "'\"`".contains(end));
    if !bare.contains(":/") {
        return word.to_owned();
    }
    let (url, end) = (ObjectUrl::new(bare).text, word.get(bare.len()..).unwrap_or_default());
    let host = url.find("://").map_or(url.len(), |at| at + 3);
    let path = url.get(host..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| host + at);
    // Another URL may follow in the same word.
    let (first, others) = url.split_at(path);
    format!("{first}{}{end}", cleaned(others))
}

/// Replaces each `%` and two hexadecimal digits by the byte that they stand for.
#[must_use]
pub fn percent_decoded(text: &str) -> Vec<u8> {
    let (bytes, mut decoded) = (text.as_bytes(), Vec::with_capacity(text.len()));
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.filter(|_| byte == b'%') {
            Some(value) => decoded.push(value),
            None => decoded.push(byte),
        }
        at += if byte == b'%' && escaped.is_some() { 3 } else { 1 };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn url_is_kept_without_its_credentials() {
        for (url, expected) in [
            ("s3://bucket/a/b/", "s3://bucket/a/b/"),
            ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
            ("https://user:SECRET@host/a?sig=SECRET#SECRET", "https://host/a"),
            ("https://a:SECRET@SECRET@host:8/a", "https://host:8/a"),
            ("https://SECRET@host", "https://host"),
            ("abfss://container@account.host/a", "abfss://container@account.host/a"),
            ("abfss://container:SECRET@account.host/a", "abfss://container@account.host/a"),
            ("https:SECRET@host/a", "host/a"),
            ("https:/user:SECRET@host", "host"),
            ("s3://KEY:SECRET/SECRET@bucket/x", "s3://bucket/x"),
            ("https://user:SECRET?SECRET#SECRET@host/a?SECRET", "https://host/a"),
            ("http://host:80/a@b", "http://host:80/a@b"),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
            ("http://[::1]/a:b@c", "http://[::1]/a:b@c"),
        ] {
            let parsed = ObjectUrl::new(url);
            assert_eq!(parsed.as_str(), expected);
            assert!(!format!("{parsed:?} {parsed}").contains("SECRET"));
        }
    }

    #[test]
    fn credentials_are_decoded() {
        let url = ObjectUrl::new("https://a%40b:p%3a@host/");
        let Credentials { user, password } = url.credentials.unwrap();
        assert_eq!((user.as_str(), password.as_str()), ("a@b", "p:"));
    }

    #[test]
    fn urls_inside_of_a_text_lose_their_credentials() {
        let text = "invalid 'https://u:SECRET@host/x' for --out=s3://SECRET@b?SECRET\nsee etcd://h";
        let expected = "invalid 'https://host/x' for --out=s3://b\nsee etcd://h";
        assert_eq!(without_credentials(text), expected);
        for (text, expected) in [
            ("\"https://u:SEC'RET@host/x\"", "\"https://host/x\""),
            ("no 'https:/u:SECRET@host'", "no host'"),
            ("'s3://a/b','s3://u:SECRET@b/c'", "'s3://a/b','s3://b/c'"),
            ("a:/b", "a:/b"),
        ] {
            assert_eq!(without_credentials(text), expected);
        }
    }

    proptest! {
        #[test]
        fn no_url_shows_user_information_or_a_query(
            scheme in "(s3|https|gs|file|x)",
            user in "[a-z:@]{0,6}",
            host in "[a-z.]{1,6}(:[0-9])?",
            path in "(/[a-z@:]{0,4}){0,3}",
            query in "[a-z=/@?#]{0,8}",
        ) {
            let url = ObjectUrl::new(&format!("{scheme}://{user}@{host}{path}?{query}"));
            prop_assert_eq!(url.as_str(), format!("{scheme}://{host}{path}"));
            let again = ObjectUrl::new(url.as_str());
            prop_assert_eq!(&again, &url);
            prop_assert!(again.credentials.is_none());
        }
    }
}
