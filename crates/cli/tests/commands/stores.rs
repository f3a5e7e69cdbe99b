//! An etcd store with TLS and authentication, and a store that was restored from a backup.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use shardwright_store::etcd::EtcdTls;
use shardwright_store::testing::{EtcdCluster, EtcdSetup};

use crate::support::{Site, keys, text};

/// Writes a CA certificate, and certificates and keys of members and clients.
fn write_certificates(site: &Site) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    fs::write(site.path("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let authority = Issuer::new(params, key);
    for (name, purpose) in [
        ("member", vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]),
        ("client", vec![ExtendedKeyUsagePurpose::ClientAuth]),
    ] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = purpose;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap().pem();
        fs::write(site.path(&format!("{name}.pem")), certificate).unwrap();
        fs::write(site.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// Starts an etcd that requires client certificates and users.
async fn start_secured_etcd(site: &Site) -> EtcdCluster {
    write_certificates(site);
    let read = |name: &str| fs::read(site.path(name)).unwrap();
    let cluster = EtcdSetup::members(1)
        .argument(format!("--cert-file={}", site.path("member.pem").display()))
        .argument(format!("--key-file={}", site.path("member.key").display()))
        .argument(format!("--trusted-ca-file={}", site.path("ca.pem").display()))
        .argument("--client-cert-auth")
        .tls(EtcdTls {
            certificate_authority: read("ca.pem"),
            identity: Some((read("client.pem"), read("client.key"))),
            server_name: None,
        })
        .start()
        .await
        .unwrap();
    let operator = cluster.operator(0).await.unwrap();
    operator.add_user("root", "root's", None).await.unwrap();
    operator.add_user("alice", "alice's", Some("shardwright/")).await.unwrap();
    operator.require_users().await.unwrap();
    cluster
}

#[tokio::test]
async fn run_on_etcd_uses_client_certificate_and_user() {
    let site = Site::with_files(20);
    let cluster = start_secured_etcd(&site).await;
    fs::write(site.path("password"), "alice's\n").unwrap();
    fs::write(site.path("wrong"), "alice").unwrap();
    let store = format!("etcds://{}", cluster.address(0).unwrap());
    let certificates =
        ["--etcd-ca", "ca.pem", "--etcd-cert", "client.pem", "--etcd-key", "client.key"];
    let user = ["--etcd-user", "alice", "--etcd-password-file", "password"];
    let run = ["run", "data", "--run", "secured", "--out", "out", "--store", &store];
    let command = ["--", "cat", "{}"];
    site.expect(0, &[&run[..], &certificates, &user, &command].concat());
    assert_eq!(keys(&site.path("out/results.jsonl")).len(), 20);

    // Environment variables have the same effect as the flags.
    let listed = site
        .command(&["runs", "--store", &store])
        .env("SHARDWRIGHT_ETCD_CA", "ca.pem")
        .env("SHARDWRIGHT_ETCD_CERT", "client.pem")
        .env("SHARDWRIGHT_ETCD_KEY", "client.key")
        .env("SHARDWRIGHT_ETCD_USER", "alice")
        .env("SHARDWRIGHT_ETCD_PASSWORD_FILE", "password")
        .output()
        .unwrap();
    assert!(text(&listed.stdout).contains("secured"), "{}", text(&listed.stderr));

    // The error names the missing flag.
    let runs = ["runs", "--store", &store];
    let printed = site.expect(2, &runs);
    assert!(printed.contains("--etcd-ca") && printed.contains("SHARDWRIGHT_ETCD_CA"), "{printed}");
    let printed = site.expect(2, &[&runs[..], &certificates[..4]].concat());
    assert!(printed.contains("--etcd-key"), "{printed}");
    let printed = site.expect(2, &[&runs[..], &certificates, &user[..2]].concat());
    assert!(printed.contains("--etcd-password-file"), "{printed}");
    let anonymous = site.expect(2, &[&runs[..], &certificates].concat());
    assert!(anonymous.contains("etcdserver"), "{anonymous}");
    let wrong_password = ["--etcd-user", "alice", "--etcd-password-file", "wrong"];
    let printed = site.expect(2, &[&runs[..], &certificates, &wrong_password].concat());
    assert!(printed.contains("authentication failed"), "{printed}");
}

#[test]
fn restored_store_has_a_new_generation() {
    let site = Site::with_files(5);
    assert!(site.expect(2, &["restored"]).contains("no runs in"));
    let run = ["run", "data", "--run", "first", "--", "cat", "{}"];
    site.expect(0, &run);
    assert_eq!(site.expect(0, &["restored", "--json"]).trim(), "{\"incarnation\":1}");
    assert!(site.expect(0, &["restored"]).contains("generation is now 2"));
    // Finished runs verify, and new runs start.
    site.expect(0, &["verify", "first"]);
    site.expect(0, &["run", "data", "--run", "second", "--", "cat", "{}"]);
    assert_eq!(site.keys("second").len(), 5);
    assert!(
        site.expect(2, &["restored", "--store", "memory:"])
            .contains("a memory: store cannot be restored")
    );
    // An existing folder without a store.
    let other = tempfile::tempdir().unwrap();
    let other = format!("file:{}", other.path().display());
    assert!(site.expect(2, &["restored", "--store", &other]).contains("no runs in"));
    let secret = "etcds://alice:secret@127.0.0.1:1";
    let printed = site.expect(2, &["runs", "--store", secret]);
    assert!(printed.contains("--etcd-password-file"), "{printed}");
}
