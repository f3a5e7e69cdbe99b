//! Authentication, permissions, namespaces and TLS.

use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use shardwright_store::etcd::{EtcdOptions, EtcdStore, EtcdTimeouts, EtcdTls};
use shardwright_store::testing::{EtcdCluster, EtcdOperator, EtcdSetup};
use shardwright_store::{
    CommitError, FaultKind, ScanFrom, Store, StoreError, StoreRange, WatchError,
};

use crate::support::{create, key, replace, single, soon, text};

async fn kind_of_refusal(options: EtcdOptions) -> FaultKind {
    match soon(EtcdStore::connect(options)).await {
        Err(StoreError::Unavailable(fault)) => fault.kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_do_not_see_each_other() {
    let (cluster, _) = single().await;
    let one = EtcdStore::connect(cluster.options().namespace("one/")).await.unwrap();
    let two = EtcdStore::connect(cluster.options().namespace("two/")).await.unwrap();
    let first = one.commit(create("a", "one's").build().unwrap()).await.unwrap();
    let mut changes = two.watch(&StoreRange::prefix(""), first).await.unwrap();
    let second = two.commit(create("a", "two's").build().unwrap()).await.unwrap();
    one.commit(create("b", "one's").build().unwrap()).await.unwrap();
    assert_eq!(text(&one, "a").await.unwrap(), "one's");
    assert_eq!(text(&two, "a").await.unwrap(), "two's");
    let page = two.scan(&StoreRange::prefix(""), ScanFrom::first(10)).await.unwrap();
    assert_eq!(page.entries.len(), 1);
    let third = two.commit(replace("a", second, "").build().unwrap()).await.unwrap();
    for expected in [second, third] {
        assert_eq!(soon(changes.next()).await.unwrap().revision, expected);
    }
    for wrong in ["", &"n".repeat(65)] {
        let refused = kind_of_refusal(cluster.options().namespace(wrong.to_owned())).await;
        assert_eq!(refused, FaultKind::Other);
    }
}

async fn with_users() -> EtcdCluster {
    let cluster = EtcdCluster::single().await.unwrap();
    let operator = cluster.operator(0).await.unwrap();
    operator.add_user("root", "root's", None).await.unwrap();
    operator.add_user("alice", "alice's", Some("alice/")).await.unwrap();
    operator.require_users().await.unwrap();
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn users_access_only_their_own_keys() {
    let cluster = with_users().await;
    let options = || cluster.options().namespace("alice/");
    assert_eq!(kind_of_refusal(options()).await, FaultKind::Denied);
    let wrong = options().credentials("alice", "a guess");
    assert_eq!(kind_of_refusal(wrong).await, FaultKind::Denied);
    let unknown = options().credentials("bob", "bob's");
    assert_eq!(kind_of_refusal(unknown).await, FaultKind::Denied);
    let others = cluster.options().namespace("bob/").credentials("alice", "alice's");
    assert_eq!(kind_of_refusal(others).await, FaultKind::Denied);

    let store = EtcdStore::connect(options().credentials("alice", "alice's")).await.unwrap();
    let first = store.commit(create("a", "").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), first).await.unwrap();
    let session = store.open_session(Duration::from_secs(60)).await.unwrap();
    store.keep_alive(session.id).await.unwrap();
    let second = store.commit(replace("a", first, "").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let (store, name) = (store.clone(), format!("{number}"));
            tokio::spawn(async move { store.commit(create(&name, "").build().unwrap()).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    store.close_session(session.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_authenticates_again_after_a_restart() {
    let mut cluster = with_users().await;
    let options = cluster.options().namespace("alice/").credentials("alice", "alice's");
    let store = EtcdStore::connect(options).await.unwrap();
    let first = store.commit(create("a", "0").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), first).await.unwrap();
    // Tokens are in the memory of a member.
    cluster.kill(0).unwrap();
    cluster.spawn_again(0).unwrap();
    let second = loop {
        match soon(store.commit(replace("a", first, "1").build().unwrap())).await {
            Ok(revision) => break revision,
            Err(CommitError::Unknown(_)) => {
                // It was sent into the connection that was breaking.
                if let Some(found) = crate::support::get(&store, "a").await
                    && found.revision > first
                {
                    break found.revision;
                }
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_watch_without_permission_is_refused() {
    let cluster = EtcdCluster::single().await.unwrap();
    let operator = cluster.operator(0).await.unwrap();
    operator.add_user("root", "root's", None).await.unwrap();
    operator.add_user("carol", "carol's", None).await.unwrap();
    let range = StoreRange::new(key("carol/"), Some(key("carol/m")));
    operator.allow("carol", &range).await.unwrap();
    operator.require_users().await.unwrap();
    let options = cluster.options().namespace("carol/").credentials("carol", "carol's");
    let store = EtcdStore::connect(options).await.unwrap();
    let first = store.commit(create("a", "").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix("a"), first).await.unwrap();
    let mut others = store.watch(&StoreRange::prefix("z"), first).await.unwrap();
    let refused = soon(others.next()).await;
    let Err(WatchError::Store(StoreError::Unavailable(fault))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(fault.kind, FaultKind::Denied, "{fault}");
    let second = store.commit(replace("a", first, "").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_with_a_dropped_token_authenticates_again() {
    let cluster = with_users().await;
    let options = cluster.options().namespace("alice/").credentials("alice", "alice's");
    let store = EtcdStore::connect(options).await.unwrap();
    let first = store.commit(create("a", "0").build().unwrap()).await.unwrap();
    // The connection stays open, and the member has dropped its token.
    let root = cluster.options().credentials("root", "root's");
    let operator = EtcdOperator::connect(&root).await.unwrap();
    operator.change_password("alice", "alice's").await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), first).await.unwrap();
    let options = cluster.options().namespace("alice/").credentials("alice", "alice's");
    let other = EtcdStore::connect(options).await.unwrap();
    let second = other.commit(replace("a", first, "1").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_authenticates_once_users_are_required() {
    let cluster = EtcdCluster::single().await.unwrap();
    let operator = cluster.operator(0).await.unwrap();
    operator.add_user("root", "root's", None).await.unwrap();
    operator.add_user("alice", "alice's", Some("alice/")).await.unwrap();
    let options = cluster.options().namespace("alice/");
    let named = EtcdStore::connect(options.clone().credentials("alice", "alice's")).await.unwrap();
    let nameless = EtcdStore::connect(options).await.unwrap();
    let first = named.commit(create("a", "0").build().unwrap()).await.unwrap();
    let session = named.open_session(Duration::from_secs(60)).await.unwrap();
    operator.require_users().await.unwrap();
    let second = named.commit(replace("a", first, "1").build().unwrap()).await.unwrap();
    named.keep_alive(session.id).await.unwrap();
    assert_eq!(text(&named, "a").await.unwrap(), "1");
    let refused = nameless.commit(replace("a", second, "2").build().unwrap()).await;
    let Err(CommitError::NotApplied(fault)) = refused else { panic!("{refused:?}") };
    assert_eq!(fault.kind, FaultKind::Denied, "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_timeout_must_exceed_the_connect_timeout() {
    let (cluster, _) = single().await;
    let time = Duration::from_secs(1);
    let timeouts = EtcdTimeouts { connect: time, call: time, ..EtcdTimeouts::default() };
    assert_eq!(kind_of_refusal(cluster.options().timeouts(timeouts)).await, FaultKind::Other);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_ignored_without_authentication() {
    let (cluster, _) = single().await;
    let options = cluster.options().credentials("alice", "alice's");
    let store = EtcdStore::connect(options).await.unwrap();
    store.commit(create("a", "").build().unwrap()).await.unwrap();
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key.
    fn sign(&self, purposes: Vec<ExtendedKeyUsagePurpose>) -> (String, String) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = purposes;
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn known_to_client(&self, identity: Option<(String, String)>) -> EtcdTls {
        EtcdTls {
            certificate_authority: self.pem.clone().into_bytes(),
            identity: identity.map(|(own, key)| (own.into_bytes(), key.into_bytes())),
            server_name: None,
        }
    }
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_authenticates_both_sides() {
    let authority = Authority::new();
    let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let (certificate, key) = authority.sign(both);
    let client = authority.sign(vec![ExtendedKeyUsagePurpose::ClientAuth]);
    let tls = authority.known_to_client(Some(client.clone()));
    let folder = tempfile::tempdir().unwrap();
    let at = |name, text| file(folder.path(), name, text);
    let setup = EtcdSetup::members(1)
        .argument(format!("--cert-file={}", at("server.pem", &certificate)))
        .argument(format!("--key-file={}", at("server.key", &key)))
        .argument(format!("--trusted-ca-file={}", at("authority.pem", &authority.pem)))
        .argument("--client-cert-auth")
        .tls(tls.clone());
    let cluster = setup.start().await.unwrap();
    let store = EtcdStore::connect(cluster.options()).await.unwrap();
    let first = store.commit(create("a", "").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), first).await.unwrap();
    let second = store.commit(replace("a", first, "").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);

    let nameless = authority.known_to_client(None);
    let stranger = Authority::new().known_to_client(Some(client));
    let misnamed = EtcdTls { server_name: Some("elsewhere".to_owned()), ..tls };
    // A rejected TLS client retries for as long as a call may take.
    let (connect, call) = (Duration::from_millis(200), Duration::from_millis(500));
    let impatient = EtcdTimeouts { connect, call, ..EtcdTimeouts::default() };
    for wrong in [nameless, stranger, misnamed] {
        let options = cluster.options().tls(wrong).timeouts(impatient);
        assert_eq!(kind_of_refusal(options).await, FaultKind::Unreachable);
    }
}
