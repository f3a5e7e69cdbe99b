//! How to authenticate with an etcd cluster, as plain data: names and paths of files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::options::{EtcdOptions, EtcdTimeouts, EtcdTls};

/// The access options of an etcd cluster, without its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdAccess {
    /// For TLS: the certificate authority of the members, in PEM.
    pub ca: Option<PathBuf>,
    /// For TLS: the client certificate, if the members require one, in PEM.
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate, in PEM.
    pub key: Option<PathBuf>,
    /// The user name, if the cluster has users.
    pub user: Option<String>,
    /// A file with the password and at most a newline.
    pub password_file: Option<PathBuf>,
    /// Whether the password may be sent without TLS.
    pub allow_plaintext_password: bool,
    /// Timeout of a call.
    pub timeout: Option<Duration>,
}

/// Why access options are invalid.
#[derive(Debug, thiserror::Error)]
pub enum EtcdAccessError {
    /// TLS without a certificate authority.
    #[error("etcds:// needs the certificate of the members' authority")]
    NoAuthority,
    /// Certificates without TLS.
    #[error("certificates need an etcds:// URL, but the store URL is etcd://")]
    NotSecure,
    /// A password without TLS.
    #[error("a password over etcd:// can be read on the network; use an etcds:// URL")]
    PlaintextPassword,
    /// One of a pair without the other.
    #[error("give both {0} and {1}, or neither")]
    Pair(&'static str, &'static str),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The password is not UTF-8.
    #[error("the password of etcd is not UTF-8")]
    Password,
}

impl EtcdAccess {
    /// The client options for these members. Reads the files.
    pub fn options(&self, members: &[String]) -> Result<EtcdOptions, EtcdAccessError> {
        let mut options = EtcdOptions::new(members.to_vec());
        let is_secure = members.iter().any(|member| member.starts_with("https://"));
        if self.cert.is_some() != self.key.is_some() {
            return Err(EtcdAccessError::Pair("a certificate", "its private key"));
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Err(EtcdAccessError::Pair("a user", "the file with the password"));
        }
        let is_plain = members.iter().any(|member| !member.starts_with("https://"));
        if self.password_file.is_some() && is_plain && !self.allow_plaintext_password {
            return Err(EtcdAccessError::PlaintextPassword);
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

/// A call leaves time to try a second member after the first one.
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
    fn a_short_call_still_tries_two_members() {
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
        let file = Some("does not exist".into());
        let password = EtcdAccess { password_file: file, ..user };
        assert!(matches!(password.options(&plain), Err(EtcdAccessError::PlaintextPassword)));
        let allowed = EtcdAccess { allow_plaintext_password: true, ..password };
        assert!(matches!(allowed.options(&plain), Err(EtcdAccessError::File { .. })));
        let missing = EtcdAccess { ca: Some("does not exist".into()), ..EtcdAccess::default() };
        assert!(matches!(missing.options(&plain), Err(EtcdAccessError::NotSecure)));
        assert!(matches!(missing.options(&secure), Err(EtcdAccessError::File { .. })));
    }
}
