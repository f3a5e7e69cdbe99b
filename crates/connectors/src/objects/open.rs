//! Stores by their addresses.

use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme};
use shardwright_worker::connector::ConnectorError;
use url::Url;

use super::ListingOrder;

/// A store, the folder in it, its address without secrets, and how it lists.
pub(super) struct Opened {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) prefix: Path,
    pub(super) url: String,
    pub(super) order: ListingOrder,
}

/// Opens the store at an address, with the settings that the environment has for it.
pub(super) fn open(address: &str) -> Result<Opened, ConnectorError> {
    open_with(address, settings)
}

/// Opens the store at an address, with the settings for its kind of store.
pub(super) fn open_with(
    address: &str,
    settings: impl FnOnce(&ObjectStoreScheme) -> Vec<(String, String)>,
) -> Result<Opened, ConnectorError> {
    let bad = |reason: String| ConnectorError::BadUrl { url: shown(address), reason };
    let url = Url::parse(address).map_err(|error| bad(error.to_string()))?;
    let (scheme, prefix) =
        ObjectStoreScheme::parse(&url).map_err(|error| bad(error.to_string()))?;
    let order = order(&scheme, &url);
    if scheme == ObjectStoreScheme::Local {
        let folder = url.to_file_path().map_err(|()| bad("it names no local folder".to_owned()))?;
        if !folder.is_dir() {
            return Err(ConnectorError::NotAFolder { path: folder });
        }
        let store = Arc::new(LocalFileSystem::new());
        return Ok(Opened { store, prefix, url: shown(address), order });
    }
    install_cryptography();
    let (store, prefix) = object_store::parse_url_opts(&url, settings(&scheme))
        .map_err(|error| bad(error.to_string()))?;
    Ok(Opened { store: Arc::from(store), prefix, url: shown(address), order })
}

/// What the environment says to a kind of store, by the prefix that its variables have.
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
        // Directory buckets, which are told by their names, list in no order.
        ObjectStoreScheme::AmazonS3 if url.host_str().is_some_and(is_directory_bucket) => {
            ListingOrder::Folders
        }
        ObjectStoreScheme::AmazonS3
        | ObjectStoreScheme::GoogleCloudStorage
        | ObjectStoreScheme::Memory => ListingOrder::Bytes,
        // Azure lists accounts with folders of their own in another order than those without,
        // and an address does not tell which it is.
        _ => ListingOrder::Folders,
    }
}

fn is_directory_bucket(host: &str) -> bool {
    host.split('.').next().is_some_and(|bucket| bucket.ends_with("--x-s3"))
}

/// An address without what may be secret in it.
fn shown(address: &str) -> String {
    let address = address.split(['?', '#']).next().unwrap_or(address);
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = match (scheme, host.rsplit_once('@')) {
        // There it is the container's name that stands before the sign.
        ("abfs" | "abfss" | "az" | "azure" | "adl", _) | (_, None) => host,
        (_, Some((_, host))) => host,
    };
    format!("{scheme}://{host}/{}", path.trim_matches('/'))
}

/// TLS needs a provider of cryptography; whoever has installed one before keeps it.
fn install_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_secrets() {
        assert_eq!(shown("s3://bucket/a/b/"), "s3://bucket/a/b");
        assert_eq!(shown("https://user:secret@host/a?signature=x#y"), "https://host/a");
        assert_eq!(shown("abfss://container@account.host/a"), "abfss://container@account.host/a");
    }

    #[test]
    fn stores_that_list_in_no_order_are_listed_folder_by_folder() {
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
    fn stores_in_the_cloud_can_be_opened_without_asking_them() {
        for address in ["s3://bucket/a", "gs://bucket/a", "https://host/a"] {
            assert_eq!(open(address).unwrap().prefix, Path::from("a"), "{address}");
        }
        for address in ["", "nonsense", "ftp://host/a", "s3:bucket"] {
            assert!(matches!(open(address), Err(ConnectorError::BadUrl { .. })), "{address}");
        }
        let missing = open("file:///no/such/folder");
        assert!(matches!(missing, Err(ConnectorError::NotAFolder { .. })));
    }
}
