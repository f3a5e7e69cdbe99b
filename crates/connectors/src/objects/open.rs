//! Opening a store by its URL.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use object_store::http::{HttpBuilder, HttpStore};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use shardwright_worker::connector::ConnectorError;
use url::{Position, Url};

use super::ListingOrder;
use crate::url::{Credentials, ObjectUrl};

/// An open store, the prefix in it, its URL without secrets, and its listing order.
pub(super) struct Opened {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) prefix: Path,
    pub(super) url: String,
    pub(super) order: ListingOrder,
}

/// Opens the store at a URL, with settings from the environment.
pub(super) fn open(address: &ObjectUrl) -> Result<Opened, ConnectorError> {
    open_with(address, settings)
}

/// Opens the store at a URL, with settings for its scheme.
pub(super) fn open_with(
    address: &ObjectUrl,
    settings: impl FnOnce(&ObjectStoreScheme) -> Vec<(String, String)>,
) -> Result<Opened, ConnectorError> {
    let bad = |reason: String| ConnectorError::BadUrl { url: shown(address), reason };
    let url = Url::parse(address.as_str()).map_err(|error| bad(error.to_string()))?;
    let (scheme, prefix) =
        ObjectStoreScheme::parse(&url).map_err(|error| bad(error.to_string()))?;
    let order = order(&scheme, &url);
    if scheme == ObjectStoreScheme::Local {
        let folder =
            url.to_file_path().map_err(|()| bad("it does not name a local folder".to_owned()))?;
        if !folder.is_dir() {
            return Err(ConnectorError::NotAFolder { path: folder });
        }
        let store = Arc::new(LocalFileSystem::new());
        return Ok(Opened { store, prefix, url: shown(address), order });
    }
    install_cryptography();
    if let (ObjectStoreScheme::Http, Some(credentials)) = (&scheme, address.credentials()) {
        let store = with_credentials(&url, credentials, settings(&scheme));
        let store = Arc::new(store.map_err(|error| bad(error.to_string()))?);
        return Ok(Opened { store, prefix, url: shown(address), order });
    }
    let (store, prefix) = object_store::parse_url_opts(&url, settings(&scheme))
        .map_err(|error| bad(error.to_string()))?;
    Ok(Opened { store: Arc::from(store), prefix, url: shown(address), order })
}

/// A WebDAV server that requires a user. The store gets the user as a header, so that its errors do
/// not contain the password.
fn with_credentials(
    url: &Url,
    credentials: &Credentials,
    settings: Vec<(String, String)>,
) -> object_store::Result<HttpStore> {
    let Credentials { user, password } = credentials;
    let text = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    let mut options = ClientOptions::new();
    for (key, value) in settings {
        options = options.with_config(key.parse::<ClientConfigKey>()?, value);
    }
    // Base64 is always a valid header.
    if let Ok(mut value) = HeaderValue::from_str(&text) {
        value.set_sensitive(true);
        options = options.with_default_headers([(AUTHORIZATION, value)].into_iter().collect());
    }
    let server = &url[..Position::BeforePath];
    HttpBuilder::new().with_url(server).with_client_options(options).build()
}

/// The environment variables for a scheme, by their prefix.
fn settings(scheme: &ObjectStoreScheme) -> Vec<(String, String)> {
    let prefix = match scheme {
        ObjectStoreScheme::AmazonS3 => "AWS_",
        ObjectStoreScheme::GoogleCloudStorage => "GOOGLE_",
        ObjectStoreScheme::MicrosoftAzure => "AZURE_",
        _ => return Vec::new(),
    };
    let text = |value: std::ffi::OsString| value.into_string().ok();
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    variables.filter(|(name, _)| name.starts_with(prefix)).collect()
}

fn order(scheme: &ObjectStoreScheme, url: &Url) -> ListingOrder {
    match scheme {
        // Directory buckets, recognizable by their names, list in no order.
        ObjectStoreScheme::AmazonS3 if url.host_str().is_some_and(is_directory_bucket) => {
            ListingOrder::Folders
        }
        ObjectStoreScheme::AmazonS3
        | ObjectStoreScheme::GoogleCloudStorage
        | ObjectStoreScheme::Memory => ListingOrder::Bytes,
        // Azure accounts with hierarchical namespaces list in another order than those without, and
        // the URL does not show which it is.
        _ => ListingOrder::Folders,
    }
}

fn is_directory_bucket(host: &str) -> bool {
    host.split('.').next().is_some_and(|bucket| bucket.ends_with("--x-s3"))
}

/// The URL in items and errors: with one slash after the host, and none at the end.
fn shown(address: &ObjectUrl) -> String {
    let (scheme, rest) = address.as_str().split_once("://").unwrap_or(("", address.as_str()));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    format!("{scheme}://{host}/{}", path.trim_matches('/'))
}

/// Installs a provider of cryptography for TLS, unless the process has one.
fn install_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_secrets() {
        let shown = |url: &str| shown(&url.into());
        assert_eq!(shown("s3://bucket/a/b/"), "s3://bucket/a/b");
        assert_eq!(shown("https://user:secret@host/a?signature=x#y"), "https://host/a");
        assert_eq!(shown("abfss://container@account.host/a"), "abfss://container@account.host/a");
    }

    #[test]
    fn errors_about_a_url_do_not_repeat_its_credentials() {
        for address in ["ftp://u:SECRET@host/a", "https://u:SECRET@/", "https://u:SECRET@h:x/"] {
            let refused = open(&address.into()).err().unwrap();
            assert!(!format!("{refused} {refused:?}").contains("SECRET"), "{refused:?}");
        }
        let opened = open(&"https://u:SECRET@host/a".into()).unwrap();
        assert!(!format!("{:?} {}", opened.store, opened.url).contains("SECRET"));
    }

    #[test]
    fn unordered_stores_are_listed_folder_by_folder() {
        let order = |address: &str| {
            let url = Url::parse(address).unwrap();
            order(&ObjectStoreScheme::parse(&url).unwrap().0, &url)
        };
        assert_eq!(order("s3://bucket/a"), ListingOrder::Bytes);
        assert_eq!(order("gs://bucket/a"), ListingOrder::Bytes);
        assert_eq!(order("s3://bucket--use1-az4--x-s3/a"), ListingOrder::Folders);
        assert_eq!(order("az://container/a"), ListingOrder::Folders);
        assert_eq!(order("file:///a"), ListingOrder::Folders);
        assert_eq!(order("https://host/a"), ListingOrder::Folders);
    }

    #[test]
    fn opening_a_store_sends_no_request() {
        for address in ["s3://bucket/a", "gs://bucket/a", "https://host/a"] {
            assert_eq!(open(&address.into()).unwrap().prefix, Path::from("a"), "{address}");
        }
        for address in ["", "nonsense", "ftp://host/a", "s3:bucket"] {
            assert!(
                matches!(open(&address.into()), Err(ConnectorError::BadUrl { .. })),
                "{address}"
            );
        }
        let missing = open(&"file:///no/such/folder".into());
        assert!(matches!(missing, Err(ConnectorError::NotAFolder { .. })));
    }
}
