//! Runs, compiles or parses every code block of `docs/` and of the pages in [`PAGES`].
//!
//! | info string | what the test does |
//! |---|---|
//! | `console` | runs each line that begins with `$ `, and compares the output and the exit code |
//! | `rust` | requires that `examples/lib.rs` includes the page, so that a doc test compiles it |
//! | `json` | parses each line |
//! | `toml` | loads the block as a rule file of `shardwright scan` |
//! | `sh`, `python` | requires that the block equals a file in `examples/`, which other tests run |
//! | `text` | nothing: the block is a diagram or a format |
//!
//! Any other info string fails the test, and so does a block without one.

mod blocks;
mod cargo_lines;
mod console;
mod errors;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use self::blocks::Block;
use self::console::Shell;

/// Pages outside `docs/` whose blocks are checked, too.
const PAGES: [&str; 5] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "specs/README.md",
    "examples/counter/README.md",
];

/// How many blocks of each kind were checked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    console: usize,
    commands: usize,
    cargo_lines: usize,
    rust: usize,
    json: usize,
    rules: usize,
    examples: usize,
    text: usize,
}

impl Counts {
    const fn blocks(&self) -> usize {
        self.console + self.rust + self.json + self.rules + self.examples + self.text
    }

    fn add(&mut self, other: &Self) {
        self.console += other.console;
        self.commands += other.commands;
        self.cargo_lines += other.cargo_lines;
        self.rust += other.rust;
        self.json += other.json;
        self.rules += other.rules;
        self.examples += other.examples;
        self.text += other.text;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { console, commands, cargo_lines, rust, json, rules, examples, text } = self;
        write!(
            f,
            "{} code blocks: {console} console ({commands} commands run, {cargo_lines} lines \
             checked only), {rust} rust compiled, {json} json parsed, {rules} rule files loaded, \
             {examples} equal to an example, {text} text",
            self.blocks()
        )
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The pages, as paths below the root.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = PAGES.iter().map(PathBuf::from).collect();
    for folder in ["docs", "docs/adr"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name()));
        pages.extend(names.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages.sort();
    pages
}

/// Checks all blocks of a page, and returns the number of blocks and the errors.
fn check_page(page: &Path, text: &str) -> (Counts, Vec<String>) {
    let (mut counts, mut errors) = (Counts::default(), Vec::new());
    let blocks = match blocks::of(text) {
        Ok(blocks) => blocks,
        Err(error) => return (counts, vec![format!("{}:{error}", page.display())]),
    };
    let mut shell = Shell::default();
    for block in &blocks {
        if let Err(error) = check(page, block, &mut shell, &mut counts) {
            errors.push(format!("{}:{}: {error}", page.display(), block.line));
        }
    }
    (counts, errors)
}

fn check(
    page: &Path,
    block: &Block<'_>,
    shell: &mut Shell,
    counts: &mut Counts,
) -> Result<(), String> {
    match block.language() {
        "console" => {
            counts.console += 1;
            let (commands, cargo_lines) = shell.check(block)?;
            counts.commands += commands;
            counts.cargo_lines += cargo_lines;
            Ok(())
        }
        "rust" => {
            counts.rust += 1;
            is_compiled(page)
        }
        "json" => {
            counts.json += 1;
            let wrong = block.lines.iter().find(|line| serde_json::from_str::<Json>(line).is_err());
            wrong.map_or(Ok(()), |line| Err(format!("not JSON: {line}")))
        }
        "toml" => {
            counts.rules += 1;
            shell.load_rules(&block.text())
        }
        "sh" | "python" => {
            counts.examples += 1;
            is_example(&block.text())
        }
        "text" => {
            counts.text += 1;
            Ok(())
        }
        "" => Err("a block without an info string".to_owned()),
        other => Err(format!("unknown info string `{other}`")),
    }
}

type Json = serde_json::Value;

/// Requires that a doc test compiles the blocks of a page.
fn is_compiled(page: &Path) -> Result<(), String> {
    let included = format!("include_str!(\"../{}\")", page.display());
    let library = fs::read_to_string(root().join("examples/lib.rs")).unwrap();
    if library.contains(&included) {
        return Ok(());
    }
    Err(format!("no doc test compiles it: examples/lib.rs lacks {included}"))
}

fn is_example(text: &str) -> Result<(), String> {
    let mut files = fs::read_dir(root().join("examples")).unwrap();
    let is_same = |file: &Path| fs::read_to_string(file).is_ok_and(|content| content == text);
    if files.any(|file| is_same(&file.unwrap().path())) {
        return Ok(());
    }
    Err("no file in examples/ has this text".to_owned())
}

#[test]
#[allow(clippy::print_stdout, reason = "the count is a result of the test")]
fn every_code_block_of_the_documents_works() {
    let pages = pages();
    let checked: Vec<(Counts, Vec<String>)> = std::thread::scope(|scope| {
        let check = |page: &Path| {
            let text = fs::read_to_string(root().join(page)).unwrap();
            check_page(page, &text)
        };
        let started: Vec<_> = pages.iter().map(|page| scope.spawn(move || check(page))).collect();
        started.into_iter().map(|page| page.join().unwrap()).collect()
    });
    let (mut counts, mut errors) = (Counts::default(), Vec::new());
    for (one, wrong) in checked {
        counts.add(&one);
        errors.extend(wrong);
    }
    println!("{counts}");
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(counts.console > 10 && counts.rust > 0 && counts.json > 5, "{counts}");
}

#[test]
fn wrong_blocks_are_errors() {
    let errors = |text: &str| check_page(Path::new("docs/page.md"), text).1.join("\n");
    for (text, expected) in [
        ("```\nx\n```\n", "docs/page.md:1: a block without an info string"),
        ("```yaml\nx: 1\n```\n", "unknown info string `yaml`"),
        ("text\n```console\n$ true\n", "docs/page.md:2: a block without an end"),
        ("```json\n{\"a\":1}\n{\"a\":}\n```\n", "not JSON: {\"a\":}"),
        ("```sh\necho\n```\n", "no file in examples/ has this text"),
        ("```rust\nfn main() {}\n```\n", "examples/lib.rs lacks"),
        ("```toml\n[[rules]]\nid = 7\n```\n", "rules.toml"),
        ("```console\nno command\n```\n", "output before the first command"),
        ("```console\n$ echo one\ntwo\n```\n", "expected:\ntwo\nprinted:\none"),
        ("```console\n$ false\n```\n", "exit code 1, expected 0"),
        ("```console\n$ true # exit code 3\n```\n", "exit code 0, expected 3"),
        ("```console\n$ cargo xtask no-such-chore\n```\n", "no chore `no-such-chore`"),
        ("```console\n$ java -config none.cfg\n```\n", "no file specs/coordination/none.cfg"),
        ("```console\n$ cargo add a --path ../shardwright/crates/cli\n```\n", "does not name a"),
        ("```console\n$ cargo bench -p no-such-crate\n```\n", "no package `no-such-crate`"),
    ] {
        let errors = errors(text);
        assert!(errors.contains(expected), "{text}\n{errors}");
    }
}

#[test]
fn correct_blocks_pass() {
    let page = "```console\n$ echo a; echo b 17 c; echo d\na\nb … c\n…\n$ pwd; echo x\n\
                /home/you\nx\n$ exit 3 # exit code 3\n$ shardwright --version\n…\n\
                $ cargo xtask tidy\n```\n```text\n--> drawing\n```\n";
    let (counts, errors) = check_page(Path::new("docs/page.md"), page);
    assert_eq!(errors, [""; 0]);
    let expected = Counts { console: 1, commands: 4, cargo_lines: 1, text: 1, ..Counts::default() };
    assert_eq!(counts, expected);
}
