//! Words that hide the component or its verb do not occur in prose.
//!
//! In a document prose is the text outside code. In every other file it is everything: comments,
//! string literals and names. A name is read as words: `nobody_waits` and `NobodyWaits` contain
//! `nobody`. A phrase is found across line ends and comment marks, and not across punctuation.
//!
//! `one` as a person is absent: the word is a number nearly everywhere, and no neighbour
//! distinguishes the two.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Violation;
use super::sources::Sources;

/// Phrases that must not occur, and what to write instead.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["told", "tell", "tells", "telling"], "use report, return, pass, state or distinguish"),
    (&["whoever", "whomever", "nobody", "no one"], "name the component"),
    (&["somebody", "someone", "anybody", "anyone"], "name the component"),
    (&["everybody", "everyone"], "name the components"),
    (&["anew"], "use again, restart or recreate"),
    (&["say", "says", "said", "saying"], "use state, report, return or print"),
    (&["ask for", "asks for", "asked for", "asking for"], "use request"),
    (&["ask of", "asks of", "asked of", "asking of"], "use require, or state what to do"),
    (&["take … away", "takes … away", "taken … away", "took … away"], "use delete or remove"),
    (&["taking … away"], "use deleting or removing"),
    (&["take leave", "takes leave", "taken leave", "took leave"], "use deactivate or leave"),
    (&["taking leave"], "use deactivating or leaving"),
    (&["come about", "comes about", "came about"], "use occur, or name the cause"),
    (&["coming about"], "use occurring, or name the cause"),
    (&["on its way", "on their way"], "use in flight, or with unknown outcome"),
    (&["be had"], "use available"),
    (&["in vain"], "use without effect, or name the failure"),
];

/// Stands in a phrase for up to [`GAP_WORDS_MAX`] words.
const GAP: &str = "…";
const GAP_WORDS_MAX: usize = 2;

/// A place where a forbidden phrase is right.
struct Exception {
    path: &'static str,
    /// The forbidden phrase with as many neighbours as identify the place.
    phrase: &'static str,
    /// Why it is right, for the readers of this list.
    #[expect(dead_code, reason = "read by people")]
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[];

/// Where the phrases are listed, so that the list does not count.
const THIS_FILE: &str = "xtask/src/tidy/prose.rs";

/// Every forbidden phrase, and every exception that is no longer needed.
pub(crate) fn check(sources: &Sources) -> Vec<Violation> {
    Rules { exceptions: EXCEPTIONS }.check(sources)
}

struct Rules<'r> {
    exceptions: &'r [Exception],
}

impl Rules<'_> {
    fn check(&self, sources: &Sources) -> Vec<Violation> {
        let mut used = BTreeSet::new();
        let mut violations = Vec::new();
        for (path, words) in prose(sources) {
            let excused = self.excused(&path, &words);
            for Hit { at, line, phrase, instead } in hits(&words) {
                let exception = excused.iter().find(|(_, range)| range.contains(&at));
                if let Some((phrase, _)) = exception {
                    used.insert((path.clone(), *phrase));
                } else {
                    let what = format!("the phrase `{phrase}`");
                    violations.push(Violation::new(&path, line, what, instead));
                }
            }
        }
        let is_unused = |one: &&Exception| !used.contains(&(one.path.into(), one.phrase));
        let unused = self.exceptions.iter().filter(is_unused);
        violations.extend(unused.map(|one| unneeded(one.path, one.phrase)));
        violations
    }

    /// The phrase of each exception for a file, and the words that it covers.
    fn excused(&self, path: &Path, words: &[Word]) -> Vec<(&'static str, Range<usize>)> {
        let phrases = self.exceptions.iter().filter(|one| path == Path::new(one.path));
        let ranges = phrases.flat_map(|one| {
            let length = one.phrase.split(' ').count();
            places(words, one.phrase).map(move |(at, _)| (one.phrase, at..at + length))
        });
        ranges.collect()
    }
}

fn unneeded(path: &str, phrase: &str) -> Violation {
    let what = format!("the exception `{phrase}` for {path} matches nothing");
    Violation::new(Path::new(THIS_FILE), 1, what, "remove it from the list")
}

/// One word of a text, in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    text: String,
    /// The line on which it ends, from 1.
    line: usize,
    /// No punctuation separates it from the word before.
    joined: bool,
}

/// The words of every file that is checked.
fn prose(sources: &Sources) -> BTreeMap<PathBuf, Vec<Word>> {
    let code = sources.rust.iter().chain(&sources.settings).chain(&sources.others);
    let code = code.map(|(path, text)| (path.clone(), words(text)));
    let documents = sources.documents.iter();
    let documents = documents.map(|(path, text)| (path.clone(), words(&without_code(text))));
    code.chain(documents).filter(|(path, _)| path != Path::new(THIS_FILE)).collect()
}

/// A forbidden phrase in a text.
struct Hit {
    /// The index of its first word.
    at: usize,
    line: usize,
    phrase: &'static str,
    instead: &'static str,
}

fn hits(words: &[Word]) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (phrases, instead) in FORBIDDEN {
        for phrase in *phrases {
            let places = places(words, phrase);
            hits.extend(places.map(|(at, line)| Hit { at, line, phrase, instead }));
        }
    }
    hits
}

/// Where a phrase occurs: the index and the line of its first word.
fn places(words: &[Word], phrase: &str) -> impl Iterator<Item = (usize, usize)> {
    let wanted: Vec<&str> = phrase.split(' ').collect();
    let starts = move |at: usize, word: &Word| {
        let (first, rest) = wanted.split_first()?;
        let after = words.get(at + 1..)?;
        (word.text == *first && continues(after, rest)).then_some((at, word.line))
    };
    words.iter().enumerate().filter_map(move |(at, word)| starts(at, word))
}

/// Whether the words continue with the rest of a phrase, without punctuation before any of them.
fn continues(words: &[Word], wanted: &[&str]) -> bool {
    match wanted.split_first() {
        None => true,
        Some((&GAP, rest)) => (0..=GAP_WORDS_MAX).any(|gap| {
            let split = words.split_at_checked(gap);
            split.is_some_and(|(skipped, after)| {
                skipped.iter().all(|word| word.joined) && continues(after, rest)
            })
        }),
        Some((next, rest)) => words.split_first().is_some_and(|(word, after)| {
            word.joined && word.text == *next && continues(after, rest)
        }),
    }
}

/// Splits a text at everything but letters and digits, at escapes, and where a name has a hump.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut line, mut joined) = (1, true);
    let mut letters = text.chars().peekable();
    let mut previous = ' ';
    while let Some(letter) = letters.next() {
        let next_is_lower = letters.peek().is_some_and(|next| next.is_lowercase());
        let hump = letter.is_uppercase() && (previous.is_lowercase() || next_is_lower);
        if (hump || !letter.is_alphanumeric()) && !word.is_empty() {
            words.push(Word { text: std::mem::take(&mut word).to_lowercase(), line, joined });
            joined = true;
        }
        if letter.is_alphanumeric() {
            word.push(letter);
        } else if letter == '\\' {
            // The letter of an escape such as `\n` is no part of a word.
            let escaped = letters.next();
            line += usize::from(escaped == Some('\n'));
        } else {
            line += usize::from(letter == '\n');
            joined &= letter.is_whitespace() || "_-/!>*#".contains(letter);
        }
        previous = letter;
    }
    if !word.is_empty() {
        words.push(Word { text: word.to_lowercase(), line, joined });
    }
    words
}

/// A document with an ellipsis in place of each code span and each line of a code block.
fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut fence = None;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let opened = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, opened) {
            (None, None) => prose.push_str(line),
            (None, Some(_)) => fence = opened,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
        }
        if fence.is_some() || opened.is_some() {
            prose.push_str("…\n");
        }
    }
    without_spans(&prose)
}

fn without_spans(text: &str) -> String {
    let mut prose = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let (before, span) = rest.split_at(start);
        let body = span.trim_start_matches('`');
        let mark = &span[..span.len() - body.len()];
        // A mark without a partner is an ordinary character.
        let (inside, after) = body.split_once(mark).unwrap_or(("", body));
        let lines = inside.matches('\n').count();
        prose.extend([before, "…", &"\n".repeat(lines)]);
        rest = after;
    }
    prose + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_by(rules: &Rules<'_>, path: &str, text: &str) -> Vec<String> {
        let sources = Sources::from_texts(&[(path, text)]);
        rules.check(&sources).iter().map(Violation::to_string).collect()
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        found_by(&Rules { exceptions: &[] }, path, text)
    }

    #[test]
    fn comments_strings_and_names_are_prose() {
        for text in [
            "// The node is told.",
            "let text = \"begin anew\";",
            "fn nobody_is_lost() {}",
            "struct ToldTwice;",
            "let text = \"line\\ntold\";",
            "fn lease_can_be_had() {}",
            "const NO_ONE: u8 = 0;",
        ] {
            assert_eq!(found("a.rs", text).len(), 1, "{text}");
        }
        for path in ["a.toml", "a.proto", "a.tla", "a.txt", "justfile", ".ci/run", "a.svg"] {
            assert_eq!(found(path, "# Whoever builds").len(), 1, "{path}");
        }
    }

    #[test]
    fn verbs_of_people_are_found_in_all_forms() {
        for text in [
            "// The record says so.",
            "fn ask_for_a_split() {}",
            "// It is asking for more.",
            "// Answers are on their way.",
            "// Taking away the lease",
            "// what an error asks of me",
            "fn what_is_asked_of_it() {}",
        ] {
            assert_eq!(found("a.rs", text).len(), 1, "{text}");
        }
        assert!(found("a.rs", "// It essays to task for, and asks. For it").is_empty());
        assert!(found("a.rs", "// tasks of the worker, and it asks. Of these").is_empty());
    }

    #[test]
    fn only_whole_words_and_unbroken_phrases_count() {
        for text in [
            "// Untold teller, newanew.",
            "// as it should be. Had it failed",
            "// There is no. One is enough.",
            "fn take() { away() }",
            "// takes it. The shard is two steps away",
            "// takes the path that leads away",
        ] {
            assert!(found("a.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_gap_of_a_phrase_holds_up_to_two_words() {
        for text in
            ["takes it away", "took the shard away", "take away", "taking\n/// it\n/// away"]
        {
            assert_eq!(found("a.rs", &format!("/// {text}")).len(), 1, "{text}");
        }
        let found = found("a.rs", "// It was taken away.");
        assert!(found[0].starts_with("a.rs:1: the phrase `taken … away` — "), "{found:?}");
    }

    #[test]
    fn a_phrase_is_found_across_lines() {
        for (path, mark) in [("a.rs", "///"), ("a.toml", "#"), ("a.py", "#"), ("justfile", "#")] {
            let text = format!("\n{mark} An answer is on its\n    {mark} way.");
            let found = found(path, &text);
            let wanted = format!("{path}:2: the phrase `on its way` — ");
            assert!(found.iter().any(|found| found.starts_with(&wanted)), "{path}: {found:?}");
        }
    }

    #[test]
    fn code_in_documents_is_exempt() {
        let fenced = "a\n```sh\ntell\n```\n~~~\n```\ntold\n~~~\nnobody\n";
        assert!(found("a.md", fenced)[0].starts_with("a.md:9: the phrase `nobody`"));
        assert_eq!(found("a.md", fenced).len(), 1);
        assert!(found("a.md", "`told`, ``a ` told`` and `tell\nanew`").is_empty());
        assert_eq!(found("a.md", "a ` without a partner, told").len(), 1);
        assert!(found("a.md", "no `code` one").is_empty());
    }

    #[test]
    fn an_exception_excuses_its_phrase_and_nothing_else() {
        let exceptions =
            [Exception { path: "a.rs", phrase: "tell them apart", reason: "an idiom" }];
        let rules = Rules { exceptions: &exceptions };
        assert!(found_by(&rules, "a.rs", "// names tell them apart").is_empty());
        assert_eq!(found_by(&rules, "a.rs", "// tell them apart, or tell").len(), 1);
        let elsewhere = found_by(&rules, "b.rs", "// tell them apart");
        assert_eq!(elsewhere.len(), 2, "a hit and an unused exception: {elsewhere:?}");
    }

    #[test]
    fn an_exception_that_matches_nothing_is_a_violation() {
        let exceptions = [Exception { path: "a.rs", phrase: "anew", reason: "a name" }];
        let rules = Rules { exceptions: &exceptions };
        let found = found_by(&rules, "a.rs", "// again");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`anew` for a.rs matches nothing"), "{found:?}");
    }
}
