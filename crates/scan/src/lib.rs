//! Finding secrets in bytes.
//!
//! Rules come from files in the Gitleaks format ([`RuleSet`]). A [`Scanner`] is what they compile
//! to; it looks at one file at a time, piece by piece, in bounded memory. A [`Report`] brings
//! together what was found in many files and writes it as text, JSON lines or SARIF.
//!
//! | module | what it holds |
//! |---|---|
//! | [`rules`] | reading, merging and checking rule files; the default rules |
//! | [`scanner`] | windows, the keyword prefilter, matching |
//! | [`finding`] | what is told of a secret, and what is not |
//! | [`report`] | findings of many files, each secret once |
//!
//! Nothing here knows of shards, leases or cursors, and nothing prints.
#![forbid(unsafe_code)]

pub mod finding;
pub mod report;
pub mod rules;
pub mod scanner;

pub use finding::{FileReport, Finding, Fingerprint, Secrecy, Skipped};
pub use report::{Format, Report};
pub use rules::{RuleSet, RulesError};
pub use scanner::{FileScan, Scanner, Scratch};
