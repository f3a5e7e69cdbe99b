use shardwright_contracts::{RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::RunName;
use shardwright_engine::codec::RecordKind;
use shardwright_engine::keyspace::MetaKey;

use super::*;

const TENANT: &str = "abababababababababababababababababababababababababababababababab";

fn tenant() -> TenantId {
    TenantId::from_bytes([0xab; 32])
}

fn shard_key() -> ShardKey {
    ShardKey::new(RunId::from_raw(0x2a), ShardId::from_raw(0x8000_0000_0000_0001))
}

fn name() -> RunName {
    RunName::new("data-1f.b").unwrap()
}

/// Every key, as text and parsed.
fn layout() -> Vec<(String, StoreKey, RecordKind)> {
    let (tenant, key) = (tenant(), shard_key());
    let (run, shard, worker) = (key.run, key.shard, WorkerId::from_raw(7));
    let (run_hex, shard_hex) = ("000000000000002a", "8000000000000001");
    let worker_hex = "0000000000000007";
    let of_run = |name| format!("{name}/{TENANT}/{run_hex}");
    let of_shard = |part| format!("shard/{TENANT}/{run_hex}/{shard_hex}/{part}");
    let view = |rest| format!("view/{TENANT}/{run_hex}/{rest}");
    let viewed = |key| StoreKey::View(tenant, run, key);
    vec![
        ("meta/format".into(), StoreKey::Meta(MetaKey::Format), RecordKind::Format),
        (
            "meta/incarnation".into(),
            StoreKey::Meta(MetaKey::Generation),
            RecordKind::StoreGeneration,
        ),
        ("meta/clock".into(), StoreKey::Meta(MetaKey::Clock), RecordKind::ClockMark),
        ("quota/total".into(), StoreKey::QuotaTotal, RecordKind::ReservedShards),
        (
            format!("quota/tenant/{TENANT}"),
            StoreKey::QuotaTenant(tenant),
            RecordKind::ReservedShards,
        ),
        (of_run("run"), StoreKey::Run(tenant, run), RecordKind::RunHead),
        (of_run("manifest"), StoreKey::Manifest(tenant, run), RecordKind::Manifest),
        (of_run("count"), StoreKey::Count(tenant, run), RecordKind::RunShards),
        (of_run("stage"), StoreKey::Stage(tenant, run), RecordKind::Stage),
        (of_run("watermark"), StoreKey::Watermark(tenant, run), RecordKind::Watermark),
        (
            format!("estimate/{TENANT}/{run_hex}/{shard_hex}"),
            StoreKey::Estimate(tenant, key),
            RecordKind::Estimate,
        ),
        (format!("name/{TENANT}/data-1f.b"), StoreKey::Name(tenant, name()), RecordKind::RunName),
        (of_run("purpose"), StoreKey::Label(tenant, run), RecordKind::RunLabel),
        (
            of_shard("definition"),
            StoreKey::Shard(tenant, key, ShardPart::Definition),
            RecordKind::Definition,
        ),
        (
            of_shard("progress"),
            StoreKey::Shard(tenant, key, ShardPart::Progress),
            RecordKind::Progress,
        ),
        (view("gate".to_owned()), viewed(ViewKey::Gate), RecordKind::RunState),
        (view(format!("open/{shard_hex}")), viewed(ViewKey::Open(shard)), RecordKind::Claimable),
        (view(format!("owner/{shard_hex}")), viewed(ViewKey::Owner(shard)), RecordKind::Binding),
        (
            view(format!("waiting/{worker_hex}")),
            viewed(ViewKey::Waiting(worker)),
            RecordKind::WaitingWorker,
        ),
        (
            view(format!("ask/{shard_hex}")),
            viewed(ViewKey::SplitRequest(shard)),
            RecordKind::SplitRequest,
        ),
        (
            view(format!("asker/{worker_hex}")),
            viewed(ViewKey::Requester(worker)),
            RecordKind::Requester,
        ),
    ]
}

fn with_prefix(prefix: &str) -> RunKeys {
    RunKeys::new(Keyspace::new(prefix).unwrap())
}

fn keyspace() -> RunKeys {
    with_prefix("shardwright/")
}

#[test]
fn golden_keys() {
    for prefix in ["", "shardwright/", "/a/b-1_2.c/"] {
        let keyspace = with_prefix(prefix);
        assert_eq!(keyspace.keyspace().prefix(), prefix);
        for (text, key, kind) in layout() {
            let stored = keyspace.key(&key);
            assert_eq!(stored.to_string(), format!("{prefix}{text}"));
            assert_eq!(keyspace.parse(&stored), Some(key), "{text}");
            assert_eq!(key.kind(), kind, "{text}");
        }
    }
}

#[test]
fn each_key_has_a_name() {
    let (keyspace, tenant, key) = (keyspace(), tenant(), shard_key());
    let (run, worker) = (key.run, WorkerId::from_raw(7));
    let named = [
        keyspace.keyspace().format(),
        keyspace.keyspace().generation(),
        keyspace.keyspace().clock(),
        keyspace.quota_total(),
        keyspace.quota_tenant(tenant),
        keyspace.run(tenant, run),
        keyspace.manifest(tenant, run),
        keyspace.count(tenant, run),
        keyspace.stage(tenant, run),
        keyspace.watermark(tenant, run),
        keyspace.estimate(tenant, key),
        keyspace.name(tenant, name()),
        keyspace.label(tenant, run),
        keyspace.definition(tenant, key),
        keyspace.progress(tenant, key),
        keyspace.gate(tenant, run),
        keyspace.open(tenant, key),
        keyspace.owner(tenant, key),
        keyspace.waiting(tenant, run, worker),
        keyspace.split_request(tenant, key),
        keyspace.requester(tenant, run, worker),
    ];
    let in_layout: Vec<Key> = layout().iter().map(|(_, key, _)| keyspace.key(key)).collect();
    assert_eq!(named.as_slice(), in_layout);
}

#[test]
fn ranges_contain_exactly_their_keys() {
    let (keyspace, key) = (keyspace(), shard_key());
    let ranges: [(_, &[&str]); 7] = [
        (keyspace.keyspace().everything(), &[""]),
        (keyspace.runs(), &["run/"]),
        (keyspace.shards(tenant(), key.run), &["shard/"]),
        (keyspace.view(tenant(), key.run), &["view/"]),
        (keyspace.estimates(tenant(), key.run), &["estimate/"]),
        (keyspace.labels(tenant()), &["purpose/"]),
        (keyspace.names(tenant()), &["name/"]),
    ];
    for (range, beginnings) in ranges {
        for (text, key, _) in layout() {
            let expected = beginnings.iter().any(|beginning| text.starts_with(beginning));
            assert_eq!(range.contains(&keyspace.key(&key)), expected, "{text} in {range:?}");
        }
        assert!(!range.contains(&Key::from("shardwright0")));
        assert!(!range.contains(&Key::from("shardwright.")));
    }
}

#[test]
fn range_of_a_tenant_or_run_excludes_neighbours() {
    let keyspace = keyspace();
    let neighbour = TenantId::from_bytes([0xac; 32]);
    let (run, next) = (RunId::from_raw(0x2a), RunId::from_raw(0x2b));
    assert!(!keyspace.labels(tenant()).contains(&keyspace.label(neighbour, run)));
    assert!(keyspace.labels(tenant()).contains(&keyspace.label(tenant(), next)));
    for (neighbour, next) in [(tenant(), next), (neighbour, run)] {
        assert!(!keyspace.view(tenant(), run).contains(&keyspace.gate(neighbour, next)));
        let foreign = keyspace.progress(neighbour, ShardKey::new(next, ShardId::SINGLE));
        assert!(!keyspace.shards(tenant(), run).contains(&foreign));
    }
}

#[test]
fn each_parser_reads_its_own_range() {
    let keyspace = keyspace();
    for (text, key, _) in layout() {
        let stored = keyspace.key(&key);
        let run = matches!(key, StoreKey::Run(..)).then_some((tenant(), shard_key().run));
        assert_eq!(keyspace.parse_run(&stored), run, "{text}");
        let shard = match key {
            StoreKey::Shard(tenant, key, part) => Some((tenant, key, part)),
            _ => None,
        };
        assert_eq!(keyspace.parse_shard(&stored), shard, "{text}");
        let view = match key {
            StoreKey::View(tenant, run, key) => Some((tenant, run, key)),
            _ => None,
        };
        assert_eq!(keyspace.parse_view(&stored), view, "{text}");
    }
}

#[test]
fn almost_valid_keys_are_rejected() {
    let keyspace = keyspace();
    let refused = |text: &str| {
        let key = Key::from(text.to_owned());
        assert_eq!(keyspace.parse(&key), None, "{text}");
    };
    // Every variation of a name is a name.
    let fixed = |key: &StoreKey| !matches!(key, StoreKey::Name(..));
    for (text, _, _) in layout().into_iter().filter(|(_, key, _)| fixed(key)) {
        let text = format!("shardwright/{text}");
        for cut in 0..text.len() {
            refused(&text[..cut]);
            refused(&text[cut + 1..]);
            // The byte removed, doubled and replaced.
            let (before, at, after) = (&text[..cut], &text[cut..=cut], &text[cut + 1..]);
            refused(&format!("{before}{after}"));
            refused(&format!("{before}{at}{at}{after}"));
            refused(&format!("{before}#{after}"));
            refused(&format!("{before}\u{0}{after}"));
        }
        refused(&format!("{text}/"));
        refused(&format!("{text}0"));
        refused(&format!("/{text}"));
        refused(&text.replace("shardwright/", "Shardwright/"));
        refused(&text.to_uppercase());
        if text.contains(TENANT) {
            refused(&text.replace(TENANT, &TENANT.to_uppercase()));
            refused(&text.replace(TENANT, &TENANT[2..]));
            refused(&text.replace(TENANT, &format!("{TENANT}ab")));
        }
    }
    for name in ["", ".a", "a/b", "a b", "a\u{e9}", &"a".repeat(41)] {
        refused(&format!("shardwright/name/{TENANT}/{name}"));
    }
    assert_eq!(keyspace.parse(&Key::from(vec![0xff; 40])), None);
    let bare = with_prefix("");
    assert_eq!(bare.parse(&keyspace.keyspace().clock()), None);
    assert_eq!(bare.parse(&Key::from("")), None);
}

#[test]
fn longest_key_matches_its_constant() {
    let prefix = format!("{}/", "a".repeat(Keyspace::PREFIX_BYTES_MAX - 1));
    let keyspace = with_prefix(&prefix);
    let lengths = layout().into_iter().map(|(_, key, _)| keyspace.key(&key).as_bytes().len());
    assert_eq!(lengths.max(), Some(RunKeys::KEY_BYTES_MAX));
}

#[test]
fn key_takes_one_allocation() {
    let keyspace = keyspace();
    for (text, key, _) in layout() {
        let counted = allocation_counter::measure(|| drop(keyspace.key(&key)));
        assert_eq!(counted.count_total, 1, "{text}");
        let stored = keyspace.key(&key);
        let counted = allocation_counter::measure(|| assert!(keyspace.parse(&stored).is_some()));
        assert_eq!(counted.count_total, 0, "{text}");
    }
}
