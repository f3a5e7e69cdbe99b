//! Which HTTP requests a page of another site could have made a browser send.
//!
//! A browser lets any page send simple requests to any address, with the rights of its user's
//! network. And a page can point its own name at a local address. So a request must name an address
//! of the listener, must not come from another origin, and must not have the type `text/plain` or
//! `multipart/form-data`.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("no such path; calls are POST /call/TYPE/OBJECT/METHOD")]
    NotFound,
    #[error("method not allowed; use POST to call an object, DELETE to delete it")]
    Method,
    #[error("the header `host` names neither this address nor a configured name; see --host")]
    Host,
    #[error("the request comes from a page of another site")]
    Origin,
    #[error("a call must not be text/plain or multipart/form-data; use application/octet-stream")]
    ContentType,
}

impl Refusal {
    /// Its code for clients, and in HTTP.
    pub(super) const fn codes(self) -> (&'static str, StatusCode) {
        match self {
            Self::NotFound => ("NOT_FOUND", StatusCode::NOT_FOUND),
            Self::Method => ("METHOD_NOT_ALLOWED", StatusCode::METHOD_NOT_ALLOWED),
            Self::Host => ("WRONG_HOST", StatusCode::MISDIRECTED_REQUEST),
            Self::Origin => ("CROSS_ORIGIN", StatusCode::FORBIDDEN),
            Self::ContentType => ("CONTENT_TYPE", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        }
    }
}

/// Checks a request that was sent to the address `local`.
pub(super) fn check(
    method: &Method,
    headers: &HeaderMap,
    local: IpAddr,
    hosts: &[String],
) -> Result<(), Refusal> {
    let host = only(headers, &header::HOST).map_err(|()| Refusal::Host)?;
    let host = host.filter(|host| is_served(host, local, hosts)).ok_or(Refusal::Host)?;
    let origin = only(headers, &header::ORIGIN).map_err(|()| Refusal::Origin)?;
    if origin.is_some_and(|origin| !is_same(origin, host)) {
        return Err(Refusal::Origin);
    }
    let site = only(headers, &FETCH_SITE).map_err(|()| Refusal::Origin)?;
    if site.is_some_and(|site| site != "none" && site != "same-origin") {
        return Err(Refusal::Origin);
    }
    let is_of_a_form = |value: &HeaderValue| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        let essence = essence.trim_ascii();
        [&b"text/plain"[..], b"multipart/form-data"]
            .iter()
            .any(|one| essence.eq_ignore_ascii_case(one))
    };
    if method == Method::POST && headers.get_all(header::CONTENT_TYPE).iter().any(is_of_a_form) {
        return Err(Refusal::ContentType);
    }
    Ok(())
}

/// The value of a header that occurs at most once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Whether a listener serves a host. Ports are not compared: they may be mapped, and a page cannot
/// choose another host by a port.
fn is_served(host: &str, local: IpAddr, hosts: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    if authority.as_str().contains('@') {
        return false;
    }
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let local = local.to_canonical();
    let is_local = bare.parse::<IpAddr>().is_ok_and(|one| one.to_canonical() == local);
    let is_localhost = local.is_loopback() && name.eq_ignore_ascii_case("localhost");
    is_local || is_localhost || hosts.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Whether an origin is the host itself.
fn is_same(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(local: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let header = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().map(header) {
            map.append(name, value);
        }
        check(&Method::POST, &map, local.parse().unwrap(), &["gate.example".to_owned()])
    }

    #[test]
    fn only_own_addresses_and_configured_names_are_served() {
        for (local, host) in [
            ("127.0.0.1", "127.0.0.1:8080"),
            ("127.0.0.1", "localhost:8080"),
            ("127.0.0.1", "LOCALHOST"),
            ("::1", "[::1]:8080"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("10.0.0.1", "10.0.0.1:80"),
            ("10.0.0.1", "gate.example:443"),
        ] {
            assert_eq!(checked(local, &[("host", host)]), Ok(()), "{host}");
        }
        for (local, host) in [
            ("127.0.0.1", "evil.example:8080"),
            ("127.0.0.1", "10.0.0.1:8080"),
            ("10.0.0.1", "localhost"),
            ("127.0.0.1", "localhost.evil.example"),
            ("127.0.0.1", "evil.example@localhost"),
            ("127.0.0.1", ""),
            ("127.0.0.1", "a b"),
        ] {
            assert_eq!(checked(local, &[("host", host)]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(checked("127.0.0.1", &[]), Err(Refusal::Host));
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(checked("127.0.0.1", &two), Err(Refusal::Host));
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let with = |name, value| checked("127.0.0.1", &[("host", "localhost:80"), (name, value)]);
        assert_eq!(with("origin", "http://localhost:80"), Ok(()));
        for other in ["http://localhost:81", "http://evil.example", "null", "", "localhost:80"] {
            assert_eq!(with("origin", other), Err(Refusal::Origin), "{other}");
        }
        assert_eq!(with("sec-fetch-site", "same-origin"), Ok(()));
        assert_eq!(with("sec-fetch-site", "none"), Ok(()));
        for site in ["cross-site", "same-site"] {
            assert_eq!(with("sec-fetch-site", site), Err(Refusal::Origin), "{site}");
        }
    }

    #[test]
    fn plain_text_and_multipart_forms_are_refused() {
        let with = |value| checked("127.0.0.1", &[("host", "localhost"), ("content-type", value)]);
        for form in ["text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; boundary=x"] {
            assert_eq!(with(form), Err(Refusal::ContentType), "{form}");
        }
        for allowed in ["application/json", "application/octet-stream", "text/plainer"] {
            assert_eq!(with(allowed), Ok(()), "{allowed}");
        }
    }
}
