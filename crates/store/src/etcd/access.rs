//! How to authenticate with an etcd cluster, as plain data: files and names, not their contents.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::options::{EtcdOptions, EtcdTimeouts, EtcdTls};

/// What a client needs to know of an etcd cluster besides where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdAccess {
    /// For TLS: the certificate authority of the members, in PEM.
    pub ca: Option<PathBuf>,
    /// For TLS: our own certificate, where members want to see one, in PEM.
    pub cert: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    pub key: Option<PathBuf>,
    /// The user name, where etcd wants one.
    pub user: Option<String>,
    /// A file with the user's password, and nothing else but perhaps a newline.
    pub password_file: Option<PathBuf>,
    /// Timeout of a call.
    pub timeout: Option<Duration>,
}

/// Why an access cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdAccessError {
    /// TLS without a certificate authority.
    #[error("etcds:// needs the certificate of the authority that has signed those of the members")]
    NoAuthority,
    /// Certificates without TLS.
    #[error("there are certificates for the store, but it is etcd:// and not etcds://")]
    NotSecure,
    /// One of a pair without the other.
    #[error("{0} and {1} go together")]
    Pair(&'static str, &'static str),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The password is not UTF-8.
    #[error("the password of etcd is no text")]
    Password,
}

impl EtcdAccess {
    /// The options to connect to these members with. Reads the files.
    pub fn options(&self, members: &[String]) -> Result<EtcdOptions, EtcdAccessError> {
        let mut options = EtcdOptions::new(members.to_vec());
        let is_secure = members.iter().any(|member| member.starts_with("https://"));
        if self.cert.is_some() != self.key.is_some() {
            return Err(EtcdAccessError::Pair("a certificate", "its private key"));
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Err(EtcdAccessError::Pair("a user", "the file with the password"));
        }
        match &self.ca {
            Some(ca) if is_secure => options = options.tls(self.tls(ca)?),
            None if is_secure => return Err(EtcdAccessError::NoAuthority),
            None if self.cert.is_none() => {}
            _ => return Err(EtcdAccessError::NotSecure),
        }
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            let password = String::from_utf8(read(file)?);
            let password = password.map_err(|_not_text| EtcdAccessError::Password)?;
            options = options.credentials(user, password.trim_end_matches(['\r', '\n']));
        }
        Ok(match self.timeout {
            Some(call) => options.timeouts(timeouts(call)),
            None => options,
        })
    }

    fn tls(&self, ca: &Path) -> Result<EtcdTls, EtcdAccessError> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            _ => None,
        };
        Ok(EtcdTls { certificate_authority: read(ca)?, identity, server_name: None })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, EtcdAccessError> {
    let failed = |source| EtcdAccessError::File { path: file.display().to_string(), source };
    std::fs::read(file).map_err(failed)
}

/// A call leaves time to ask a second member when the first one does not answer.
fn timeouts(call: Duration) -> EtcdTimeouts {
    let usual = EtcdTimeouts::default();
    let part = call.saturating_mul(2) / 5;
    EtcdTimeouts {
        connect: usual.connect.min(part),
        attempt: usual.attempt.min(part),
        call,
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_call_still_asks_two_members() {
        let short = timeouts(Duration::from_secs(1));
        assert!(short.connect * 2 < short.call && short.attempt * 2 < short.call, "{short:?}");
        assert_eq!(timeouts(Duration::from_secs(5)), EtcdTimeouts::default());
    }

    #[test]
    fn incomplete_access_is_refused_before_connecting() {
        let (plain, secure) = (["http://a:1".to_owned()], ["https://a:1".to_owned()]);
        let nothing = EtcdAccess::default();
        assert!(matches!(nothing.options(&secure), Err(EtcdAccessError::NoAuthority)));
        let _options = nothing.options(&plain).unwrap();
        let user = EtcdAccess { user: Some("u".to_owned()), ..EtcdAccess::default() };
        assert!(matches!(user.options(&plain), Err(EtcdAccessError::Pair(..))));
        let missing = EtcdAccess { ca: Some("does not exist".into()), ..EtcdAccess::default() };
        assert!(matches!(missing.options(&plain), Err(EtcdAccessError::NotSecure)));
        assert!(matches!(missing.options(&secure), Err(EtcdAccessError::File { .. })));
    }
}
