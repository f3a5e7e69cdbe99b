use std::fs;
use std::path::Path;

use super::*;

fn parse(text: &str) -> Result<RuleSet, RulesError> {
    RuleSet::parse("rules.toml", text, Path::new(""))
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn the_default_rules_have_keywords_and_bounded_matches() {
    let set = RuleSet::built_in().unwrap();
    assert!((25..=45).contains(&set.rules().len()), "{}", set.rules().len());
    for rule in set.rules() {
        assert!(!rule.description().is_empty() && !rule.tags().is_empty(), "{}", rule.id());
        let Some(pattern) = &rule.pattern else { continue };
        assert!(!rule.keywords.is_empty(), "{}", rule.id());
        assert!(pattern.hir.properties().maximum_len().is_some(), "{}", rule.id());
    }
}

#[test]
fn every_supported_field_is_read() {
    let set = parse(
        r#"
title = "t"
description = "d"
minVersion = "v8.25.0"
[[rules]]
id = "one"
description = "One"
regex = '''(a)(b+)'''
secretGroup = 2
entropy = 3.5
path = '''\.env$'''
keywords = ["AB"]
tags = ["x"]
[[rules.allowlists]]
description = "fine"
condition = "AND"
paths = ['''^tests/''']
regexes = ['''^b$''']
regexTarget = "match"
stopwords = ["Word"]
[[rules]]
id = "two"
path = "id_rsa"
[rules.allowlist]
paths = ["fixtures"]
[[allowlists]]
targetRules = ["one"]
stopwords = ["x"]
"#,
    )
    .unwrap();
    let rule = set.rule("one").unwrap();
    assert_eq!((rule.secret_group, rule.entropy), (2, Some(3.5)));
    assert_eq!((&rule.keywords[..], &rule.tags[..]), (&["ab".into()][..], &["x".into()][..]));
    assert_eq!(rule.allowlists[0].stopwords, ["word"]);
    assert_eq!(set.rule("two").unwrap().allowlists.len(), 1);
    assert!(set.allowlists[0].applies_to("one") && !set.allowlists[0].applies_to("two"));
}

#[test]
fn an_invalid_line_is_reported_with_file_and_line() {
    for (text, line, reason) in [
        ("[[rules]]\nid = 3", 2, "invalid type"),
        ("[[rules]\n", 1, ""),
        ("\n[[rules]]\nid='a'\nregexp='b'", 4, "unknown field `regexp`"),
        ("[[rules]]\nregex='b'", 1, "missing field `id`"),
        ("[[rules]]\nid=' '\nregex='b'", 2, "id is empty"),
        ("[[rules]]\nid='a'\nregex='('", 3, "the pattern cannot be used"),
        ("[[rules]]\nid='a'\nregex='''x\\<y'''", 3, "mean different things"),
        ("[[rules]]\nid='a'", 2, "neither a regex nor a path"),
        ("[[rules]]\nid='a'\nregex='(b)'\n\nsecretGroup=2", 5, "has 1 groups"),
        ("[[rules]]\nid='a'\nregex='b'\nentropy=9.0", 4, "entropy must be between 0 and 8"),
        ("[[rules]]\nid='a'\nregex='b'\nkeywords=['x',\n'']", 5, "must not be empty"),
        ("[[rules]]\nid='a'\nregex='b'\n[[rules]]\nid='a'\nregex='c'", 5, "a rule `a` above"),
        ("[[rules]]\nid='a'\nregex='b'\nskipReport=true", 4, "`skipReport` is not supported"),
        ("[[rules]]\nid='a'\nregex='b'\n[[rules.required]]\nid='b'", 4, "`required`"),
        ("[[rules]]\nid='a'\nregex='b'\n[[rules.allowlists]]", 4, "names no paths"),
        ("[allowlist]\ncommits=['abc']", 2, "`commits` is not supported"),
        ("[[allowlists]]\npaths=['a']\ncondition='XOR'", 3, "`XOR` is not one of"),
        ("[[allowlists]]\npaths=['a']\nregexTarget='file'", 3, "`file` is not one of"),
        ("[[allowlists]]\npaths=['a']\ntargetRules=['z']", 1, "no rule `z`"),
        ("[allowlist]\npaths=['a']\n[[allowlists]]\npaths=['b']", 1, "not both"),
        ("[extend]\nuseDefault=true\ndisabledRules=['nope']", 3, "no rule `nope`"),
        ("[extend]\nurl='https://x'", 2, "`url` is not supported"),
        ("[extend]\nuseDefault=true\npath='x'", 3, "either"),
        (
            "[[rules]]\nid='a'\nregex='b'\n[rules.allowlist]\npaths=['s']\ntargetRules=['a']",
            6,
            "applies to that rule only",
        ),
    ] {
        let found = error(text);
        assert!(found.starts_with(&format!("rules.toml:{line}: ")), "{text}\n{found}");
        assert!(found.contains(reason), "{text}\n{found}");
    }
}

#[test]
fn a_file_extends_another_file_or_the_default_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(
        path("base.toml"),
        "[[rules]]\nid='a'\nregex='(x)'\nkeywords=['x']\nentropy=1.0\n[[rules]]\nid='b'\nregex='y'",
    )
    .unwrap();
    let own = "[extend]\npath='base.toml'\ndisabledRules=['b']\n\
               [[rules]]\nid='a'\nentropy=2.0\nkeywords=['z']\n[[rules]]\nid='c'\nregex='w'";
    fs::write(path("own.toml"), own).unwrap();
    let set = RuleSet::read(&path("own.toml")).unwrap();
    assert_eq!(set.rules().iter().map(Rule::id).collect::<Vec<_>>(), ["a", "c"]);
    let rule = set.rule("a").unwrap();
    assert_eq!((rule.entropy, &rule.keywords[..]), (Some(2.0), &["x".into(), "z".into()][..]));
    assert_eq!(rule.pattern.as_ref().unwrap().text, "(x)");

    let set = parse("[extend]\nuseDefault=true\ndisabledRules=['private-key']").unwrap();
    assert_eq!(set.rules().len() + 1, RuleSet::built_in().unwrap().rules().len());

    let endless = RuleSet::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(endless.contains("/dev/zero") && endless.contains("16 MiB"), "{endless}");

    fs::write(path("loop.toml"), "[extend]\npath='loop.toml'").unwrap();
    let error = RuleSet::read(&path("loop.toml")).unwrap_err().to_string();
    assert!(error.contains("loop.toml:2: "), "{error}");
    assert!(error.contains("more than 4 levels deep"), "{error}");
    let error = RuleSet::read(&path("missing.toml")).unwrap_err().to_string();
    assert!(error.contains("missing.toml: "), "{error}");
}

#[test]
fn every_field_changes_the_digest() {
    let digest = |text: &str| parse(text).unwrap().digest();
    let rule = "[[rules]]\nid='a'\nregex='b(c)'\n";
    let mut digests = vec![digest(rule), RuleSet::built_in().unwrap().digest()];
    for more in [
        "description='d'",
        "secretGroup=1",
        "entropy=1.0",
        "path='p'",
        "keywords=['k']",
        "tags=['t']",
        "[[rules.allowlists]]\npaths=['p']",
        "[[rules.allowlists]]\nregexes=['p']",
        "[[rules.allowlists]]\nregexes=['p']\nregexTarget='line'",
        "[[rules.allowlists]]\nregexes=['p']\ncondition='AND'",
        "[[allowlists]]\nregexes=['p']",
        "[[allowlists]]\nregexes=['p']\ntargetRules=['a']",
    ] {
        digests.push(digest(&format!("{rule}{more}")));
    }
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count);
    assert_eq!(digest(rule), digest(rule));
}

proptest::proptest! {
    #[test]
    fn reading_rules_never_panics(text: String, pattern: String) {
        let _ = parse(&text);
        let pattern = toml_string(&pattern);
        let _ = parse(&format!("[[rules]]\nid='a'\nregex={pattern}\nkeywords=[{pattern}]"));
    }
}

fn toml_string(text: &str) -> String {
    let escaped: String =
        text.chars().map(|letter| format!("\\U{:08x}", u32::from(letter))).collect();
    format!("\"{escaped}\"")
}

#[test]
fn a_file_without_rules_is_rejected() {
    let without = "[allowlist]\npaths = ['x']\n";
    for text in ["", "title = \"t\"\n", without] {
        assert_eq!(error(text), "there are no rules in rules.toml", "{text}");
    }
    assert!(parse("[extend]\nuseDefault = true\n").is_ok());
}
