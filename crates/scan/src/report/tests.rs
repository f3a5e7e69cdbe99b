use super::*;
use crate::finding::Secrecy;
use crate::scanner::{Scanner, Scratch};

const RULES: &str = "[[rules]]\nid='a'\ndescription='An a'\nregex='k=(\\w+)'\ntags=['t']\n\
                     [[rules]]\nid='b'\npath='bad'";

fn scanner() -> Scanner {
    let set = RuleSet::parse("rules.toml", RULES, std::path::Path::new("")).unwrap();
    Scanner::new(set, Secrecy::Redacted).unwrap()
}

/// Two files with a common secret, one that is a finding by its path, and one that is unreadable.
fn report(scanner: &Scanner) -> Report<'_> {
    let mut report = Report::new(scanner.rules());
    let mut scratch = Scratch::new();
    for (path, text) in [
        (&b"one"[..], "k=abcdefghijklmnopqrst"),
        (b"tw\xffo \x1b[2J", "\n k=abcdefghijklmnopqrst k=xyz"),
        (b"bad", "\0"),
    ] {
        let found = scanner.scan(path, text.as_bytes(), &mut scratch);
        report.add(path, text.len() as u64, found);
    }
    report.add(b"shut", 3, scanner.unread(b"shut", Skipped::Unreadable));
    report
}

fn written(format: Format) -> String {
    let (scanner, mut out) = (scanner(), Vec::new());
    report(&scanner).write(format, "file:///x/", &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_same_secret_is_one_finding_with_all_locations() {
    let scanner = scanner();
    let report = report(&scanner);
    let [shared, file, other] = [0, 1, 2].map(|at| &report.found()[at]);
    assert_eq!(report.found().len(), 3);
    assert_eq!(shared.locations.len(), 2);
    assert_eq!((other.rule.as_str(), other.locations.len()), ("b", 1));
    assert_eq!(file.locations[0].span.unwrap().line, 2);
    let totals = report.totals();
    assert_eq!((totals.files, totals.locations, totals.binary, totals.unreadable), (4, 4, 1, 1));
}

#[test]
fn locations_beyond_the_limit_are_counted() {
    let scanner = scanner();
    let mut report = Report::new(scanner.rules());
    let mut scratch = Scratch::new();
    for number in 0..MOST_LOCATIONS + 5 {
        let path = number.to_string().into_bytes();
        report.add(&path, 1, scanner.scan(&path, b"k=v", &mut scratch));
    }
    assert_eq!((report.found()[0].locations.len(), report.found()[0].more), (MOST_LOCATIONS, 5));
}

#[test]
fn text_escapes_control_characters_and_redacts_secrets() {
    let text = written(Format::Text);
    assert!(text.contains("a: An a\n  abcd\u{2026} (20 bytes)"), "{text}");
    assert!(text.contains("\n  one:1:3\n  tw\\xffo \\u{1b}[2J:2:4\n"), "{text}");
    assert!(text.contains("b: b\n  bad\n"), "{text}");
    assert!(!text.contains("abcdefgh") && !text.contains("xyz"), "{text}");
}

#[test]
fn lines_are_json_with_every_location() {
    let lines = written(Format::Jsonl);
    let values: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 3);
    assert_eq!(values[0]["rule"], "a");
    assert_eq!(values[0]["places"][0]["path"], "one");
    assert_eq!(values[0]["places"][0]["column"], 3);
    assert_eq!(values[0]["places"][1]["path_hex"], "7477ff6f201b5b324a");
    assert!(!lines.contains("abcdefgh") && !lines.contains("xyz"), "{lines}");
}

/// The fields of an object, all of which must be known.
fn fields<'v>(value: &'v serde_json::Value, known: &[&str]) -> &'v serde_json::Value {
    for field in value.as_object().unwrap().keys() {
        assert!(known.contains(&field.as_str()), "{field}");
    }
    value
}

#[test]
fn sarif_has_the_required_structure() {
    let document: serde_json::Value = serde_json::from_str(&written(Format::Sarif)).unwrap();
    assert_eq!(fields(&document, &["$schema", "version", "runs"])["version"], "2.1.0");
    let run = &document["runs"][0];
    let known = ["tool", "invocations", "originalUriBaseIds", "columnKind", "results"];
    fields(run, &known);
    let driver = fields(&run["tool"]["driver"], &["name", "semanticVersion", "rules"]);
    let rules = driver["rules"].as_array().unwrap();
    assert!(driver["name"].is_string() && rules.iter().all(|rule| rule["id"].is_string()));
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let notification = &run["invocations"][0]["toolExecutionNotifications"][0];
    assert_eq!(notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "shut");
    let bases = run["originalUriBaseIds"].as_object().unwrap();
    assert!(bases.values().all(|base| base["uri"].as_str().unwrap().ends_with('/')));
    let known = [
        "ruleId",
        "ruleIndex",
        "level",
        "message",
        "locations",
        "occurrenceCount",
        "partialFingerprints",
        "properties",
    ];
    for result in run["results"].as_array().unwrap() {
        fields(result, &known);
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(result["ruleId"], rules[index]["id"]);
        assert_eq!(result["level"], "error");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        assert!(
            result["partialFingerprints"].as_object().unwrap().values().all(|it| it.is_string())
        );
        for location in result["locations"].as_array().unwrap() {
            let physical = fields(&location["physicalLocation"], &["artifactLocation", "region"]);
            let artifact = fields(&physical["artifactLocation"], &["uri", "uriBaseId"]);
            assert!(bases.contains_key(artifact["uriBaseId"].as_str().unwrap()));
            let uri = artifact["uri"].as_str().unwrap();
            assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri}");
            if let Some(region) = physical.get("region") {
                let number = |field: &str| region[field].as_u64().unwrap();
                assert!(number("startLine") >= 1 && number("startColumn") >= 1);
                assert!(number("endLine") >= number("startLine") && number("byteLength") > 0);
            }
        }
    }
    assert_eq!(
        run["results"][0]["locations"][1]["physicalLocation"]["artifactLocation"]["uri"],
        "tw%FFo%20%1B%5B2J"
    );
}

#[test]
fn format_names_round_trip() {
    for format in [Format::Text, Format::Jsonl, Format::Sarif] {
        assert_eq!(format.as_str().parse(), Ok(format));
    }
    assert!("xml".parse::<Format>().is_err());
}
