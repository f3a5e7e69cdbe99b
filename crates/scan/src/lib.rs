//! Searches bytes for secrets.
//!
//! [`RuleSet`] reads rules from files in the Gitleaks format. [`Scanner`] compiles them, and
//! searches one file at a time, piece by piece, in bounded memory. [`Report`] combines the findings
//! of many files, and writes them as text, JSON lines or SARIF.
//!
//! The crate knows nothing of shards, leases and cursors, and does not print.
#![forbid(unsafe_code)]

mod finding;
mod report;
mod rules;
mod scanner;

pub use finding::{FileReport, Finding, Fingerprint, NoFingerprint, Secrecy, Skipped, Span};
pub use report::{Format, FoundAt, Group, Report, Totals, uri};
pub use rules::{Rule, RulePosition, RuleProblem, RuleSet, RulesError};
pub use scanner::{FileScan, Scanner, Scratch, Windows};
