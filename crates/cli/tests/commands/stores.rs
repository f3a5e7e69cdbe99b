//! Stores that are not simply there: an etcd that wants to know who we are, and one from a backup.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use shardwright_store::etcd::EtcdTls;
use shardwright_store::testing::{EtcdCluster, EtcdSetup};

use crate::support::{Site, keys, text};

/// Writes the certificates of an authority, of members and of clients, and their keys.
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

/// An etcd that speaks only to those with a certificate and a name.
async fn wary(site: &Site) -> EtcdCluster {
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
async fn a_run_on_an_etcd_with_certificates_and_users() {
    let site = Site::with_files(20);
    let cluster = wary(&site).await;
    fs::write(site.path("password"), "alice's\n").unwrap();
    fs::write(site.path("guess"), "alice").unwrap();
    let store = format!("etcds://{}", cluster.address(0).unwrap());
    let certificates =
        ["--etcd-ca", "ca.pem", "--etcd-cert", "client.pem", "--etcd-key", "client.key"];
    let name = ["--etcd-user", "alice", "--etcd-password-file", "password"];
    let run = ["run", "data", "--run", "wary", "--out", "out", "--store", &store];
    let command = ["--", "cat", "{}"];
    site.expect(0, &[&run[..], &certificates, &name, &command].concat());
    assert_eq!(keys(&site.path("out/results.jsonl")).len(), 20);

    // The environment does as well.
    let listed = site
        .command(&["runs", "--store", &store])
        .env("SHARDWRIGHT_ETCD_CA", "ca.pem")
        .env("SHARDWRIGHT_ETCD_CERT", "client.pem")
        .env("SHARDWRIGHT_ETCD_KEY", "client.key")
        .env("SHARDWRIGHT_ETCD_USER", "alice")
        .env("SHARDWRIGHT_ETCD_PASSWORD_FILE", "password")
        .output()
        .unwrap();
    assert!(text(&listed.stdout).contains("wary"), "{}", text(&listed.stderr));

    // What is missing is said.
    let runs = ["runs", "--store", &store];
    let told = site.expect(2, &runs);
    assert!(told.contains("--etcd-ca") && told.contains("SHARDWRIGHT_ETCD_CA"), "{told}");
    let told = site.expect(2, &[&runs[..], &certificates[..4]].concat());
    assert!(told.contains("--etcd-key"), "{told}");
    let told = site.expect(2, &[&runs[..], &certificates, &name[..2]].concat());
    assert!(told.contains("--etcd-password-file"), "{told}");
    let nobody = site.expect(2, &[&runs[..], &certificates].concat());
    assert!(nobody.contains("etcdserver"), "{nobody}");
    let guessing = ["--etcd-user", "alice", "--etcd-password-file", "guess"];
    let told = site.expect(2, &[&runs[..], &certificates, &guessing].concat());
    assert!(told.contains("authentication failed"), "{told}");
}

#[test]
fn a_store_that_was_restored_is_in_another_incarnation() {
    let site = Site::with_files(5);
    assert!(site.expect(2, &["restored"]).contains("there are no runs"));
    let run = ["run", "data", "--run", "first", "--", "cat", "{}"];
    site.expect(0, &run);
    assert_eq!(site.expect(0, &["restored", "--json"]).trim(), "{\"incarnation\":1}");
    assert!(site.expect(0, &["restored"]).contains("incarnation 2"));
    // What was finished is finished, and new work begins.
    site.expect(0, &["verify", "first"]);
    site.expect(0, &["run", "data", "--run", "second", "--", "cat", "{}"]);
    assert_eq!(site.keys("second").len(), 5);
    assert!(site.expect(2, &["restored", "--store", "memory:"]).contains("in memory"));
    // Another folder, which is no store of ours.
    let other = tempfile::tempdir().unwrap();
    let other = format!("file:{}", other.path().display());
    assert!(site.expect(2, &["restored", "--store", &other]).contains("never been used"));
    let secret = "etcds://alice:secret@127.0.0.1:1";
    let told = site.expect(2, &["runs", "--store", secret]);
    assert!(told.contains("--etcd-password-file"), "{told}");
}
