//! The TOML structure of a rule file.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

/// A rule file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct File {
    #[serde(rename = "title")]
    _title: Option<String>,
    #[serde(rename = "description")]
    _description: Option<String>,
    /// Ignored: unsupported fields are rejected by name.
    #[serde(rename = "minVersion")]
    _min_version: Option<String>,
    pub(super) extend: Option<Extend>,
    #[serde(default)]
    pub(super) rules: Vec<Spanned<Rule>>,
    pub(super) allowlist: Option<Spanned<Allowlist>>,
    #[serde(default)]
    pub(super) allowlists: Vec<Spanned<Allowlist>>,
}

/// The rules that a file extends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Extend {
    #[serde(default)]
    pub(super) use_default: bool,
    pub(super) path: Option<Spanned<String>>,
    pub(super) url: Option<Spanned<IgnoredAny>>,
    #[serde(default)]
    pub(super) disabled_rules: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Rule {
    pub(super) id: Spanned<String>,
    pub(super) description: Option<String>,
    pub(super) regex: Option<Spanned<String>>,
    pub(super) secret_group: Option<Spanned<usize>>,
    pub(super) entropy: Option<Spanned<f64>>,
    pub(super) path: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) keywords: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) allowlist: Option<Spanned<Allowlist>>,
    #[serde(default)]
    pub(super) allowlists: Vec<Spanned<Allowlist>>,
    pub(super) required: Option<Spanned<IgnoredAny>>,
    pub(super) skip_report: Option<Spanned<IgnoredAny>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Allowlist {
    #[serde(rename = "description")]
    _description: Option<String>,
    pub(super) condition: Option<Spanned<String>>,
    pub(super) regex_target: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) paths: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) regexes: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) stopwords: Vec<Spanned<String>>,
    pub(super) commits: Option<Spanned<IgnoredAny>>,
    pub(super) target_rules: Option<Spanned<Vec<Spanned<String>>>>,
}
