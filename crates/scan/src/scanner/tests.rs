use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::finding::Span;

fn scanner(rules: &str) -> Scanner {
    let set = RuleSet::parse("rules.toml", rules, Path::new("")).unwrap();
    Scanner::new(set, Secrecy::Shown).unwrap()
}

fn built_in() -> Scanner {
    Scanner::new(RuleSet::built_in().unwrap(), Secrecy::Shown).unwrap()
}

/// The rules and secrets that are found in a file.
fn found(scanner: &Scanner, path: &str, text: &[u8]) -> Vec<(String, String)> {
    let report = scanner.scan(path.as_bytes(), text, &mut Scratch::new());
    report.findings.into_iter().map(|it| (it.rule, it.secret)).collect()
}

fn secrets(scanner: &Scanner, text: &str) -> Vec<String> {
    found(scanner, "file", text.as_bytes()).into_iter().map(|(_, secret)| secret).collect()
}

/// Pseudorandom letters and digits, which are not a real secret.
fn random(length: usize, letters: &str) -> String {
    let (letters, mut state) = (letters.as_bytes(), 88_172_645_463_325_252_u64);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[state as usize % letters.len()]
    };
    (0..length).map(|_| char::from(next())).collect()
}

const ALPHANUMERIC: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";

#[test]
fn each_default_rule_finds_its_sample() {
    let scanner = built_in();
    let word = |length| random(length, ALPHANUMERIC);
    let hex = |length| random(length, HEX);
    let upper = |length| random(length, "ABCDEFGHJKLMNPQRSTUVWXYZ234567");
    let samples = [
        ("aws-access-key-id", format!("AKIA{}", upper(16))),
        ("aws-secret-access-key", format!("aws_secret_access_key = {}", word(40))),
        ("google-api-key", format!("AIza{}", word(35))),
        ("google-oauth-client-secret", format!("GOCSPX-{}", word(28))),
        ("azure-storage-account-key", format!("AccountKey={}==", word(86))),
        ("digitalocean-token", format!("dop_v1_{}", hex(64))),
        ("github-token", format!("ghp_{}", word(36))),
        ("github-fine-grained-token", format!("github_pat_{}_{}", word(22), word(59))),
        ("gitlab-token", format!("glpat-{}", word(20))),
        ("npm-token", format!("npm_{}", word(36))),
        ("npmrc-auth-token", format!("//r/:_authToken={}", word(40))),
        ("pypi-token", format!("pypi-AgE{}", word(60))),
        ("crates-io-token", format!("cio{}", word(32))),
        ("rubygems-token", format!("rubygems_{}", hex(48))),
        ("docker-hub-token", format!("dckr_pat_{}", word(27))),
        ("slack-token", format!("xoxb-{}-{}", random(12, "0123456789"), word(24))),
        ("slack-webhook", format!("https://hooks.slack.com/services/T{}", word(44))),
        ("discord-webhook", format!("discord.com/api/webhooks/{}/{}", "1".repeat(18), word(68))),
        ("telegram-bot-token", format!("telegram: 123456789:AA{}", word(33))),
        ("stripe-secret-key", format!("sk_live_{}", word(24))),
        ("square-token", format!("sq0atp-{}", word(22))),
        ("shopify-token", format!("shpat_{}", hex(32))),
        ("sendgrid-key", format!("SG.{}.{}", word(22), word(43))),
        ("mailgun-key", format!("MAILGUN_KEY=key-{}", hex(32))),
        ("twilio-key", format!("twilio = SK{}", hex(32))),
        ("openai-key", format!("sk-proj-{}T3BlbkFJ{}", word(20), word(20))),
        ("anthropic-key", format!("sk-ant-api03-{}", word(93))),
        ("hugging-face-token", format!("hf_{}", random(34, "abcdefghijklmnopqrstuvwxyzABCDEFG"))),
        ("vault-token", format!("hvs.{}", word(90))),
        ("terraform-token", format!("{}.atlasv1.{}", word(14), word(64))),
        ("grafana-token", format!("glsa_{}_{}", word(32), hex(8))),
        ("databricks-token", format!("dapi{}", hex(32))),
        (
            "age-secret-key",
            format!("AGE-SECRET-KEY-1{}", random(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
        ),
        (
            "private-key",
            format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
                word(900)
            ),
        ),
        ("json-web-token", format!("eyJ{}.eyJ{}.{}", word(20), word(40), word(43))),
        ("password-in-url", format!("postgres://admin:{}@db.internal/app", word(14))),
        ("generic-assigned-secret", format!("client_secret: \"{}\"", word(30))),
    ];
    for (rule, text) in &samples {
        for text in [text.clone(), format!("x = '{text}'\n"), format!("a\n  {text}\r\nb")] {
            if *rule == "generic-assigned-secret" && text.starts_with("x =") {
                continue;
            }
            let found = found(&scanner, "src/file.txt", text.as_bytes());
            assert!(found.iter().any(|(it, _)| it == rule), "{rule} in {text}: {found:?}");
        }
    }
    let key_file = found(&scanner, "home/.ssh/id_rsa", b"anything");
    assert_eq!(key_file, [("private-key-file".to_owned(), String::new())]);
    let tried = samples.len() + 1;
    assert_eq!(tried, scanner.rules().rules().len(), "a rule has no sample");
}

#[test]
fn the_default_rules_search_around_keywords_only() {
    let scanner = built_in();
    for (rule, reach) in scanner.rules().rules().iter().zip(&scanner.reaches) {
        let is_near = !matches!(reach, Reach::Everywhere | Reach::WithKeyword);
        assert!(is_near, "{}: {reach:?}", rule.id());
    }
    let around = scanner.reaches.iter().filter(|reach| matches!(reach, Reach::Around { .. }));
    assert!(around.count() < 8, "{:?}", scanner.reaches);
}

#[test]
fn ordinary_text_holds_no_secret() {
    let scanner = built_in();
    for text in [
        "let token = next_token(&mut input);",
        "password: \"correct-horse-battery-staple\"",
        "secret = \"${VAULT_SECRET_FROM_ENV}\"",
        "api_key = \"<your api key goes here 1234>\"",
        "sha256 = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
        "https://user:password@example.com/",
        "AKIAIOSFODNN7EXAMPLE",
        "key: \"2f1b3c4d-1a2b-3c4d-5e6f-7a8b9c0d1e2f\"",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBg\n-----END PUBLIC KEY-----",
    ] {
        assert_eq!(found(&scanner, "a.txt", text.as_bytes()), [], "{text}");
    }
}

#[test]
fn the_secret_is_the_named_group_or_the_first_that_matched() {
    let rule = |more: &str| {
        scanner(&format!("[[rules]]\nid='a'\nregex='''k=(?:(x+)|(y+))(z?)'''\n{more}"))
    };
    assert_eq!(secrets(&rule(""), "k=xxz k=yy"), ["xx", "yy"]);
    assert_eq!(secrets(&rule("secretGroup=2"), "k=xxz k=yy"), ["yy"]);
    assert_eq!(secrets(&scanner("[[rules]]\nid='a'\nregex='k=x+'"), "k=xx"), ["k=xx"]);
}

#[test]
fn entropy_has_to_be_exceeded() {
    let rule =
        |bits: f64| scanner(&format!("[[rules]]\nid='a'\nregex='k=(\\w+)'\nentropy={bits:?}"));
    assert_eq!(secrets(&rule(0.0), "k=aaaa k=abcd"), ["aaaa", "abcd"]);
    assert_eq!(secrets(&rule(1.9), "k=aaaa k=abcd"), ["abcd"]);
    assert!(secrets(&rule(2.0), "k=aaaa k=abcd").is_empty());
}

#[test]
fn a_rule_with_a_keyword_searches_only_where_it_occurs() {
    let rules = "[[rules]]\nid='a'\nregex='[0-9]{4}'\nkeywords=['PIN']";
    assert!(secrets(&scanner(rules), "1234 5678").is_empty());
    assert_eq!(secrets(&scanner(rules), "1234 5678 pin"), ["1234", "5678"]);
}

#[test]
fn paths_restrict_rules_and_can_be_findings() {
    let scanner = scanner(
        "[[rules]]\nid='a'\nregex='x{3}'\npath='''\\.env$'''\n[[rules]]\nid='b'\npath='secret'",
    );
    let names = |path: &str| -> Vec<String> {
        found(&scanner, path, b"xxx").into_iter().map(|(rule, _)| rule).collect()
    };
    assert_eq!(names("a/b.env"), ["a"]);
    assert!(names("a/b.envy").is_empty());
    assert_eq!(names("secret/b.env"), ["b", "a"]);
    let unread = scanner.unread(b"secret/b", Skipped::Unreadable);
    assert_eq!((unread.findings.len(), unread.skipped), (1, Some(Skipped::Unreadable)));
}

#[test]
fn allowlists_allow_by_path_secret_match_line_and_stopword() {
    let text = "k=abc12 // fine\nk=abd34\n";
    let rule = |list: &str| {
        let rule = "[[rules]]\nid='a'\nregex='k=(\\w+)'\n";
        let own = secrets(&scanner(&format!("{rule}[[rules.allowlists]]\n{list}")), text);
        let global = secrets(&scanner(&format!("{rule}[[allowlists]]\n{list}")), text);
        assert_eq!(own, global, "{list}");
        own
    };
    assert!(rule("paths=['^file$']").is_empty());
    assert_eq!(rule("paths=['^other$']").len(), 2);
    assert_eq!(rule("regexes=['^abc']"), ["abd34"]);
    assert_eq!(rule("regexes=['^k=abc']").len(), 2);
    assert_eq!(rule("regexes=['^k=abc']\nregexTarget='match'"), ["abd34"]);
    assert_eq!(rule("regexes=['fine$']\nregexTarget='line'"), ["abd34"]);
    assert_eq!(rule("stopwords=['BD3']"), ["abc12"]);
    let both = "stopwords=['ab']\nregexes=['34$']";
    assert!(rule(both).is_empty());
    assert_eq!(rule(&format!("{both}\ncondition='AND'")), ["abc12"]);
    let elsewhere = "paths=['^other$']\nstopwords=['ab']\ncondition='AND'";
    assert_eq!(rule(elsewhere).len(), 2);
}

#[test]
fn an_allowlist_for_one_rule_does_not_affect_others() {
    let scanner = scanner(
        "[[rules]]\nid='a'\nregex='x{3}'\n[[rules]]\nid='b'\nregex='x{3}'\n\
         [[allowlists]]\ntargetRules=['a']\npaths=['^f$']",
    );
    assert_eq!(found(&scanner, "f", b"xxx"), [("b".to_owned(), "xxx".to_owned())]);
    assert!(!scanner.is_allowed(b"f"));
}

#[test]
fn a_comment_allows_the_secret_of_its_line() {
    let scanner = scanner("[[rules]]\nid='a'\nregex='k=(\\w+)'");
    let text = "k=one # gitleaks:allow\nk=two # shardwright:allow\nk=three\n";
    assert_eq!(secrets(&scanner, text), ["three"]);
}

#[test]
fn a_specific_rule_replaces_a_generic_one() {
    let text = format!("github_secret: \"ghp_{}\"", random(36, ALPHANUMERIC));
    let found = found(&built_in(), "f", text.as_bytes());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "github-token");
}

#[test]
fn spans_are_in_lines_and_characters() {
    let scanner = scanner("[[rules]]\nid='a'\nregex='(?s)k=(x.+x)'");
    let text = "one\n\u{e9}\u{e9} k=x\nx end";
    let report = scanner.scan(b"f", text.as_bytes(), &mut Scratch::new());
    let offset = text.find("x\nx").unwrap() as u64;
    let span = Span { line: 2, column: 6, end_line: 3, end_column: 2, offset, length: 3 };
    assert_eq!(report.findings[0].span, Some(span));
}

#[test]
fn binary_files_are_skipped() {
    let scanner = scanner("[[rules]]\nid='a'\nregex='x{3}'");
    let mut scratch = Scratch::new();
    let report = scanner.scan(b"f", b"xxx\0", &mut scratch);
    assert_eq!((report.skipped, report.findings.len()), (Some(Skipped::Binary), 0));
    let mut late = vec![b' '; SAMPLED];
    late.extend(b"\0 xxx \xff");
    let report = scanner.scan(b"f", &late, &mut scratch);
    assert_eq!((report.skipped, report.findings.len()), (None, 1));
    assert_eq!(scanner.scan(b"f", b"", &mut scratch), FileReport::default());
}

const SAMPLED: usize = 8 << 10;

#[test]
fn findings_beyond_the_limit_are_counted() {
    let scanner = scanner("[[rules]]\nid='a'\nregex='x'");
    let report = scanner.scan(b"f", &[b'x'; MOST_FINDINGS + 7], &mut Scratch::new());
    assert_eq!((report.findings.len(), report.omitted), (MOST_FINDINGS, 7));
}

#[test]
fn a_scratch_can_be_used_with_several_scanners() {
    let (one, other) =
        (scanner("[[rules]]\nid='a'\nregex='x+'"), scanner("[[rules]]\nid='b'\nregex='(y)\\w+'"));
    let mut scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(one.scan(b"f", b"xx yy", &mut scratch).findings[0].secret, "xx");
        assert_eq!(other.scan(b"f", b"xx yy", &mut scratch).findings[0].secret, "y");
    }
}

const MIXED: &str = r#"
[[rules]]
id = 'around'
regex = '''\b(tok_[a-z]{3,20})\b'''
keywords = ['tok_']
[[rules]]
id = 'inner'
regex = '''[a-z]?-?(tok_|_)[a-z]{3,20}'''
keywords = ['_']
[[rules]]
id = 'long'
regex = '''(?s)BEGIN(.{5,90}?)END'''
keywords = ['begin', 'be']
[[rules]]
id = 'unbounded'
regex = '''(?m)^#+ *(\w+)$'''
keywords = ['#']
[[rules]]
id = 'everywhere'
regex = '''[0-9]{3,}'''
"#;

/// Rules that are searched at keywords and around them.
const WORDS: &str = r#"
[[rules]]
id = 'at'
regex = '''\b(tok_[a-z]{3,20})\b'''
keywords = ['tok_']
[[rules]]
id = 'around'
regex = '''[a-z]{0,4}tok_[a-z]{3,20}'''
keywords = ['tok_', 'ok_']
[[rules]]
id = 'long'
regex = '''(?s)BEGIN(.{5,90}?)END'''
keywords = ['begin']
"#;

/// Small windows, so that a border comes early.
fn tight(rules: &str) -> Scanner {
    let set = RuleSet::parse("rules.toml", rules, Path::new("")).unwrap();
    Scanner::with_windows(set, Secrecy::Shown, Windows::new(0, 128)).unwrap()
}

#[test]
fn a_secret_is_found_once_wherever_a_window_ends() {
    let (tight, whole) = (tight(MIXED), scanner(MIXED));
    let mut scratch = (Scratch::new(), Scratch::new());
    let secret = "tok_abcdef 12345 BEGIN some text END";
    for before in 8_100..8_700 {
        let text = format!("{}\n{secret}\n{}", " ".repeat(before), " ".repeat(9_000));
        let expected = whole.scan(b"f", text.as_bytes(), &mut scratch.0);
        assert_eq!(expected.findings.len(), 4);
        assert_eq!(tight.scan(b"f", text.as_bytes(), &mut scratch.1), expected, "{before}");
    }
}

/// Text in which some pieces are secrets.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => "[a-z ]{0,400}",
        1 => "tok_[a-z]{1,22}",
        1 => "BEGIN[a-z\n]{0,95}END",
        1 => "\n#{1,3} [a-z]{0,9}\n",
        1 => "[0-9]{1,9}",
        1 => "\n",
        1 => "\u{e9}{1,40}",
    ];
    prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn findings_do_not_depend_on_windows_and_pieces(
        text in pieces(),
        step in 1_usize..5_000,
        rules in prop::sample::select(vec![MIXED, WORDS]),
    ) {
        let (tight, whole) = (tight(rules), scanner(rules));
        let expected = whole.scan(b"f", &text, &mut Scratch::new());
        let mut scratch = Scratch::new();
        prop_assert_eq!(&tight.scan(b"f", &text, &mut scratch), &expected);
        let mut scan = tight.begin(b"f", &mut scratch);
        text.chunks(step).for_each(|piece| scan.add(piece));
        prop_assert_eq!(&scan.finish(), &expected);
        let mut scan = tight.begin(b"f", &mut scratch);
        while scan.read(&mut text.get(scan.taken()..).unwrap_or_default()).unwrap() > 0 {}
        prop_assert_eq!(&scan.finish(), &expected);
    }

    #[test]
    fn a_scan_never_panics(
        path in prop::collection::vec(any::<u8>(), 0..40),
        text in prop::collection::vec(any::<u8>(), 0..20_000),
    ) {
        let mut text = text;
        text.iter_mut().take(9_000).for_each(|byte| *byte = (*byte).max(1));
        let _ = tight(MIXED).scan(&path, &text, &mut Scratch::new());
        let _ = tight(crate::rules::DEFAULT).scan(&path, &text, &mut Scratch::new());
    }

    #[test]
    fn searching_around_keywords_finds_the_same_as_everywhere(
        text in pieces(),
        rules in prop::sample::select(vec![MIXED, WORDS]),
    ) {
        let everywhere = rules.replace("keywords", "tags");
        let (near, all) = (scanner(rules), scanner(&everywhere));
        let near = near.scan(b"f", &text, &mut Scratch::new());
        prop_assert_eq!(near, all.scan(b"f", &text, &mut Scratch::new()));
    }
}
