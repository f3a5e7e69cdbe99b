//! How etcd knows us, and how we know it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shardwright_store::etcd::EtcdAccess;

/// What is said about an etcd besides where it is. The environment may say it as well, so that
/// nobody has to say it each time, and so that processes which are started here know it.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Options of etcd")]
pub(crate) struct EtcdFlags {
    /// For `etcds://`: the certificate of who has signed those of the members, in PEM.
    #[arg(long = "etcd-ca", global = true, value_name = "FILE", env = CA, hide_env_values = true)]
    ca: Option<PathBuf>,
    /// For `etcds://`: our own certificate, where members want to see one, in PEM.
    #[arg(long = "etcd-cert", global = true, value_name = "FILE", env = CERT)]
    #[arg(hide_env_values = true)]
    cert: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    #[arg(long = "etcd-key", global = true, value_name = "FILE", env = KEY)]
    #[arg(hide_env_values = true)]
    key: Option<PathBuf>,
    /// Who we are, where etcd wants to know.
    #[arg(long = "etcd-user", global = true, value_name = "NAME", env = USER)]
    #[arg(hide_env_values = true)]
    user: Option<String>,
    /// A file with the password of that user, and nothing else but perhaps a newline.
    #[arg(long = "etcd-password-file", global = true, value_name = "FILE", env = PASSWORD_FILE)]
    #[arg(hide_env_values = true)]
    password_file: Option<PathBuf>,
    /// After how many seconds without an answer a call has failed [default: 5].
    #[arg(long = "etcd-timeout", global = true, value_name = "SECONDS", env = TIMEOUT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=600), hide_env_values = true)]
    timeout: Option<u16>,
}

const CA: &str = "SHARDWRIGHT_ETCD_CA";
const CERT: &str = "SHARDWRIGHT_ETCD_CERT";
const KEY: &str = "SHARDWRIGHT_ETCD_KEY";
const USER: &str = "SHARDWRIGHT_ETCD_USER";
const PASSWORD_FILE: &str = "SHARDWRIGHT_ETCD_PASSWORD_FILE";
const TIMEOUT: &str = "SHARDWRIGHT_ETCD_TIMEOUT";

impl From<EtcdFlags> for EtcdAccess {
    fn from(flags: EtcdFlags) -> Self {
        let EtcdFlags { ca, cert, key, user, password_file, timeout } = flags;
        let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        Self { ca, cert, key, user, password_file, timeout }
    }
}

/// Refuses an access that cannot be used, by the names of the flags.
pub(crate) fn check_access(access: &EtcdAccess, members: &[String]) -> anyhow::Result<()> {
    let is_secure = members.iter().any(|member| member.starts_with("https://"));
    match &access.ca {
        Some(_) if !is_secure => {
            anyhow::bail!("--etcd-ca (or {CA}) is given, but the store is etcd:// and not etcds://")
        }
        None if is_secure => anyhow::bail!(
            "etcds:// needs --etcd-ca FILE (or {CA}), the certificate of who has signed those of \
             the members"
        ),
        _ => {}
    }
    anyhow::ensure!(
        access.cert.is_none() || is_secure,
        "--etcd-cert (or {CERT}) is given, but the store is etcd:// and not etcds://"
    );
    let key = ("--etcd-key", KEY, access.key.is_some());
    together(("--etcd-cert", CERT, access.cert.is_some()), key)?;
    let password = ("--etcd-password-file", PASSWORD_FILE, access.password_file.is_some());
    together(("--etcd-user", USER, access.user.is_some()), password)?;
    for (file, flag, variable) in [
        (&access.ca, "--etcd-ca", CA),
        (&access.cert, "--etcd-cert", CERT),
        (&access.key, "--etcd-key", KEY),
        (&access.password_file, "--etcd-password-file", PASSWORD_FILE),
    ] {
        if let Some(file) = file.as_ref().filter(|file| !file.exists()) {
            let path = file.display();
            anyhow::bail!("{path}, of {flag} (or {variable}), is not there");
        }
    }
    Ok(())
}

/// What is given, for a process that is started here.
pub(crate) fn flags_of(access: &EtcdAccess) -> Vec<String> {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let flags = [
        ("--etcd-ca", path(&access.ca)),
        ("--etcd-cert", path(&access.cert)),
        ("--etcd-key", path(&access.key)),
        ("--etcd-user", access.user.clone()),
        ("--etcd-password-file", path(&access.password_file)),
        ("--etcd-timeout", access.timeout.map(|timeout| timeout.as_secs().to_string())),
    ];
    let given = |(name, value): (&str, Option<String>)| Some([name.to_owned(), value?]);
    flags.into_iter().filter_map(given).flatten().collect()
}

/// Refuses one of a pair without the other. Not a rule of the parser, because one may come from
/// the environment and the other not.
fn together(
    (one, of_one, has_one): (&str, &str, bool),
    (other, of_other, has_other): (&str, &str, bool),
) -> anyhow::Result<()> {
    anyhow::ensure!(
        has_one == has_other,
        "{one} (or {of_one}) and {other} (or {of_other}) go together"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(access: &EtcdAccess, member: &str) -> String {
        format!("{:#}", check_access(access, &[member.to_owned()]).unwrap_err())
    }

    #[test]
    fn what_is_missing_or_in_vain_is_named() {
        let nothing = EtcdAccess::default();
        let text = said(&nothing, "https://a:1");
        assert!(text.contains("--etcd-ca") && text.contains(CA), "{text}");
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let ca = EtcdAccess { ca: Some(file.to_path_buf()), ..EtcdAccess::default() };
        assert!(said(&ca, "http://a:1").contains("not etcds://"));
        check_access(&ca, &["https://a:1".to_owned()]).unwrap();
        drop(file);
        let text = said(&ca, "https://a:1");
        assert!(text.contains("--etcd-ca") && text.contains("is not there"), "{text}");
        check_access(&nothing, &["http://a:1".to_owned()]).unwrap();
    }

    #[test]
    fn half_of_a_pair_is_refused_with_the_name_of_the_other() {
        let user = EtcdAccess { user: Some("u".to_owned()), ..EtcdAccess::default() };
        let text = said(&user, "http://a:1");
        assert!(text.contains("--etcd-password-file") && text.contains(PASSWORD_FILE), "{text}");
        let key = EtcdAccess { key: Some("k".into()), ..EtcdAccess::default() };
        assert!(said(&key, "http://a:1").contains("--etcd-cert"));
    }

    #[test]
    fn a_process_is_told_all_that_we_were_told() {
        let access = EtcdAccess {
            ca: Some("a".into()),
            user: Some("u".to_owned()),
            password_file: Some("p".into()),
            timeout: Some(Duration::from_secs(7)),
            ..EtcdAccess::default()
        };
        let flags = flags_of(&access).join(" ");
        let expected = "--etcd-ca a --etcd-user u --etcd-password-file p --etcd-timeout 7";
        assert_eq!(flags, expected);
    }
}
