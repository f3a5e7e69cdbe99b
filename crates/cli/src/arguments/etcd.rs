//! TLS, credentials and timeout of an etcd store.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shardwright_store::etcd::EtcdAccess;

/// Access to etcd. Each flag has an environment variable, which child processes inherit.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "etcd options")]
pub(crate) struct EtcdFlags {
    /// CA certificate of the members in PEM; required for `etcds://`.
    #[arg(long = "etcd-ca", global = true, value_name = "FILE", env = CA, hide_env_values = true)]
    ca: Option<PathBuf>,
    /// Client certificate in PEM, for `etcds://` members that require one.
    #[arg(long = "etcd-cert", global = true, value_name = "FILE", env = CERT)]
    #[arg(hide_env_values = true)]
    cert: Option<PathBuf>,
    /// Private key of the client certificate in PEM.
    #[arg(long = "etcd-key", global = true, value_name = "FILE", env = KEY)]
    #[arg(hide_env_values = true)]
    key: Option<PathBuf>,
    /// User name, if etcd requires authentication.
    #[arg(long = "etcd-user", global = true, value_name = "NAME", env = USER)]
    #[arg(hide_env_values = true)]
    user: Option<String>,
    /// File with the user's password; a trailing newline is ignored.
    #[arg(long = "etcd-password-file", global = true, value_name = "FILE", env = PASSWORD_FILE)]
    #[arg(hide_env_values = true)]
    password_file: Option<PathBuf>,
    /// Allow sending the password over `etcd://`, unencrypted.
    #[arg(long = "etcd-allow-plaintext-password", global = true, env = ALLOW_PLAINTEXT)]
    #[arg(hide_env_values = true)]
    allow_plaintext_password: bool,
    /// Fail a request after SECONDS without an answer [default: 5].
    #[arg(long = "etcd-timeout", global = true, value_name = "SECONDS", env = TIMEOUT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=600), hide_env_values = true)]
    timeout: Option<u16>,
}

const CA: &str = "SHARDWRIGHT_ETCD_CA";
const CERT: &str = "SHARDWRIGHT_ETCD_CERT";
const KEY: &str = "SHARDWRIGHT_ETCD_KEY";
const USER: &str = "SHARDWRIGHT_ETCD_USER";
const PASSWORD_FILE: &str = "SHARDWRIGHT_ETCD_PASSWORD_FILE";
const ALLOW_PLAINTEXT: &str = "SHARDWRIGHT_ETCD_ALLOW_PLAINTEXT_PASSWORD";
const TIMEOUT: &str = "SHARDWRIGHT_ETCD_TIMEOUT";

const OR_LEAVE_OUT: &str = "change --store to etcds://, or leave the flag out";

impl From<EtcdFlags> for EtcdAccess {
    fn from(flags: EtcdFlags) -> Self {
        let EtcdFlags { ca, cert, key, user, password_file, allow_plaintext_password, timeout } =
            flags;
        let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        Self { ca, cert, key, user, password_file, allow_plaintext_password, timeout }
    }
}

/// Rejects incomplete or unusable settings, naming their flags.
pub(crate) fn check_access(access: &EtcdAccess, members: &[String]) -> anyhow::Result<()> {
    let is_secure = members.iter().any(|member| member.starts_with("https://"));
    match &access.ca {
        Some(_) if !is_secure => {
            anyhow::bail!("--etcd-ca (or {CA}) needs an etcds:// store; {OR_LEAVE_OUT}")
        }
        None if is_secure => anyhow::bail!(
            "an etcds:// store needs --etcd-ca FILE (or {CA}), the CA certificate of the members"
        ),
        _ => {}
    }
    anyhow::ensure!(
        access.cert.is_none() || is_secure,
        "--etcd-cert (or {CERT}) needs an etcds:// store; {OR_LEAVE_OUT}"
    );
    let key = ("--etcd-key", KEY, access.key.is_some());
    together(("--etcd-cert", CERT, access.cert.is_some()), key)?;
    let password = ("--etcd-password-file", PASSWORD_FILE, access.password_file.is_some());
    together(("--etcd-user", USER, access.user.is_some()), password)?;
    anyhow::ensure!(
        access.password_file.is_none() || is_secure || access.allow_plaintext_password,
        "a password over etcd:// can be read on the network; change --store to etcds://, or add \
         --etcd-allow-plaintext-password (or {ALLOW_PLAINTEXT})"
    );
    for (file, flag, variable) in [
        (&access.ca, "--etcd-ca", CA),
        (&access.cert, "--etcd-cert", CERT),
        (&access.key, "--etcd-key", KEY),
        (&access.password_file, "--etcd-password-file", PASSWORD_FILE),
    ] {
        if let Some(file) = file.as_ref().filter(|file| !file.exists()) {
            let path = file.display();
            anyhow::bail!("{path} does not exist; correct {flag} (or {variable})");
        }
    }
    Ok(())
}

/// The flags by which a child process gets the same access.
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
    let mut flags: Vec<String> = flags.into_iter().filter_map(given).flatten().collect();
    if access.allow_plaintext_password {
        flags.push("--etcd-allow-plaintext-password".to_owned());
    }
    flags
}

/// Rejects one flag of a pair without the other. The parser cannot check this, because one may
/// come from the environment.
fn together(
    (one, of_one, has_one): (&str, &str, bool),
    (other, of_other, has_other): (&str, &str, bool),
) -> anyhow::Result<()> {
    anyhow::ensure!(
        has_one == has_other,
        "give both {one} (or {of_one}) and {other} (or {of_other}), or neither"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(access: &EtcdAccess, member: &str) -> String {
        format!("{:#}", check_access(access, &[member.to_owned()]).unwrap_err())
    }

    #[test]
    fn missing_and_unusable_flags_are_named() {
        let empty = EtcdAccess::default();
        let text = rejection(&empty, "https://a:1");
        assert!(text.contains("--etcd-ca") && text.contains(CA), "{text}");
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let ca = EtcdAccess { ca: Some(file.to_path_buf()), ..EtcdAccess::default() };
        assert!(rejection(&ca, "http://a:1").contains("needs an etcds:// store"));
        check_access(&ca, &["https://a:1".to_owned()]).unwrap();
        drop(file);
        let text = rejection(&ca, "https://a:1");
        assert!(text.contains("--etcd-ca") && text.contains("does not exist"), "{text}");
        check_access(&empty, &["http://a:1".to_owned()]).unwrap();
    }

    #[test]
    fn one_flag_of_a_pair_is_rejected_with_the_name_of_the_other() {
        let user = EtcdAccess { user: Some("u".to_owned()), ..EtcdAccess::default() };
        let text = rejection(&user, "http://a:1");
        assert!(text.contains("--etcd-password-file") && text.contains(PASSWORD_FILE), "{text}");
        let key = EtcdAccess { key: Some("k".into()), ..EtcdAccess::default() };
        assert!(rejection(&key, "http://a:1").contains("--etcd-cert"));
    }

    #[test]
    fn password_without_tls_needs_a_flag() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let password_file = Some(file.path().to_owned());
        let user = Some("u".to_owned());
        let plain = EtcdAccess { user, password_file, ..EtcdAccess::default() };
        let text = rejection(&plain, "http://a:1");
        assert!(text.contains("--etcd-allow-plaintext-password"), "{text}");
        assert!(text.contains(ALLOW_PLAINTEXT), "{text}");
        let allowed = EtcdAccess { allow_plaintext_password: true, ..plain };
        check_access(&allowed, &["http://a:1".to_owned()]).unwrap();
        assert!(flags_of(&allowed).contains(&"--etcd-allow-plaintext-password".to_owned()));
    }

    #[test]
    fn child_process_gets_the_same_access() {
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
