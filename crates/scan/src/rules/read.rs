//! Reading rule files.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;

use super::allowlist::{Allowlist, Condition, Target};
use super::draft::{Draft, Drafts, Located};
use super::error::{RulePosition, RuleProblem, RulesError};
use super::{DEFAULT, DEFAULT_NAME, Pattern, file};

/// Most levels of files that extend one another.
const DEEPEST: usize = 4;
/// Longest rule file, in bytes.
const LONGEST: u64 = 16 << 20;

pub(super) fn from_path(path: &Path, depth: usize) -> Result<Drafts, RulesError> {
    let name = path.display().to_string();
    let failed = |error| RulesError::Read { file: name.clone(), error };
    let mut text = String::new();
    // A pipe or a device has no length.
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    if read.map_err(failed)? as u64 > LONGEST {
        return Err(failed(std::io::Error::other("the file is larger than 16 MiB")));
    }
    from_text(&name, &text, path.parent().unwrap_or(Path::new("")), depth)
}

pub(super) fn from_text(
    name: &str,
    text: &str,
    folder: &Path,
    depth: usize,
) -> Result<Drafts, RulesError> {
    let reader = Reader { file: name.into(), text };
    let parsed: file::File = toml::from_str(text).map_err(|error| {
        let problem = RuleProblem::Syntax(error.message().lines().collect::<Vec<_>>().join(" "));
        reader.error(&error.span().unwrap_or_default(), problem)
    })?;
    let mut drafts = match &parsed.extend {
        Some(extend) => reader.extended(extend, folder, depth)?,
        None => Drafts::default(),
    };
    let rules = parsed.rules.iter().map(|rule| reader.rule(rule.get_ref()));
    drafts.add(rules.collect::<Result<_, _>>()?)?;
    let allowlists = reader.allowlists(parsed.allowlist.as_ref(), &parsed.allowlists, true)?;
    drafts.allow(allowlists);
    Ok(drafts)
}

/// A rule file that is being read.
struct Reader<'t> {
    file: Arc<str>,
    text: &'t str,
}

impl Reader<'_> {
    fn position(&self, span: &Range<usize>) -> RulePosition {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        RulePosition { file: Arc::clone(&self.file), line }
    }

    fn error(&self, span: &Range<usize>, problem: RuleProblem) -> RulesError {
        RulesError::At { position: self.position(span), problem }
    }

    fn located<T: Clone>(&self, spanned: &Spanned<T>) -> Located<T> {
        Located { position: self.position(&spanned.span()), value: spanned.get_ref().clone() }
    }

    fn unsupported<T>(
        &self,
        value: Option<&Spanned<T>>,
        field: &'static str,
        why: &'static str,
    ) -> Result<(), RulesError> {
        match value {
            Some(value) => Err(self.error(&value.span(), RuleProblem::Unsupported { field, why })),
            None => Ok(()),
        }
    }

    fn extended(
        &self,
        extend: &file::Extend,
        folder: &Path,
        depth: usize,
    ) -> Result<Drafts, RulesError> {
        self.unsupported(extend.url.as_ref(), "url", "fetch the file and name its `path`")?;
        let mut drafts = Drafts::default();
        if extend.use_default {
            drafts = from_text(DEFAULT_NAME, DEFAULT, Path::new(""), depth + 1)?;
        }
        if let Some(path) = &extend.path {
            if extend.use_default {
                let why = "use either it or `useDefault`, as in Gitleaks";
                let problem = RuleProblem::Unsupported { field: "path", why };
                return Err(self.error(&path.span(), problem));
            }
            if depth >= DEEPEST {
                return Err(self.error(&path.span(), RuleProblem::TooDeep(DEEPEST)));
            }
            drafts = from_path(&folder.join(path.get_ref()), depth + 1)?;
        }
        for id in &extend.disabled_rules {
            drafts.disable(&self.located(id))?;
        }
        Ok(drafts)
    }

    fn rule(&self, rule: &file::Rule) -> Result<Draft, RulesError> {
        let alone = "each rule is applied on its own";
        self.unsupported(rule.required.as_ref(), "required", alone)?;
        self.unsupported(rule.skip_report.as_ref(), "skipReport", alone)?;
        let id = self.located(&rule.id);
        if id.value.trim().is_empty() {
            return Err(id.error(RuleProblem::NoId));
        }
        if let Some(entropy) = &rule.entropy
            && !(0.0..=8.0).contains(entropy.get_ref())
        {
            return Err(self.error(&entropy.span(), RuleProblem::BadEntropy));
        }
        let allowlists = self.allowlists(rule.allowlist.as_ref(), &rule.allowlists, false)?;
        Ok(Draft {
            id,
            description: rule.description.clone().filter(|text| !text.is_empty()),
            pattern: self.pattern(rule.regex.as_ref())?,
            secret_group: rule.secret_group.as_ref().map(|group| self.located(group)),
            entropy: rule.entropy.as_ref().map(|entropy| *entropy.get_ref()),
            path: self.pattern(rule.path.as_ref())?,
            keywords: self.words(&rule.keywords)?,
            tags: rule.tags.clone(),
            allowlists: allowlists.into_iter().map(|it| it.value).collect(),
        })
    }

    /// An empty pattern counts as none.
    fn pattern(&self, text: Option<&Spanned<String>>) -> Result<Option<Pattern>, RulesError> {
        let Some(text) = text.filter(|text| !text.get_ref().is_empty()) else { return Ok(None) };
        let pattern = Pattern::new(text.get_ref());
        pattern.map(Some).map_err(|problem| self.error(&text.span(), problem))
    }

    fn patterns(&self, texts: &[Spanned<String>]) -> Result<Vec<Pattern>, RulesError> {
        let pattern = |text: &Spanned<String>| {
            Pattern::new(text.get_ref()).map_err(|problem| self.error(&text.span(), problem))
        };
        texts.iter().map(pattern).collect()
    }

    fn words(&self, words: &[Spanned<String>]) -> Result<Vec<String>, RulesError> {
        let word = |word: &Spanned<String>| {
            if word.get_ref().is_empty() {
                return Err(self.error(&word.span(), RuleProblem::EmptyWord));
            }
            Ok(word.get_ref().to_ascii_lowercase())
        };
        words.iter().map(word).collect()
    }

    fn allowlists(
        &self,
        one: Option<&Spanned<file::Allowlist>>,
        many: &[Spanned<file::Allowlist>],
        is_global: bool,
    ) -> Result<Vec<Located<Allowlist>>, RulesError> {
        if let (Some(one), [_, ..]) = (one, many) {
            return Err(self.error(&one.span(), RuleProblem::TwoAllowlists));
        }
        let all = one.into_iter().chain(many);
        all.map(|allowlist| self.allowlist(allowlist, is_global)).collect()
    }

    fn allowlist(
        &self,
        spanned: &Spanned<file::Allowlist>,
        is_global: bool,
    ) -> Result<Located<Allowlist>, RulesError> {
        let list = spanned.get_ref();
        self.unsupported(list.commits.as_ref(), "commits", "files have no commits")?;
        if !is_global {
            let why = "an allowlist of a rule applies to that rule only";
            self.unsupported(list.target_rules.as_ref(), "targetRules", why)?;
        }
        if list.paths.is_empty() && list.regexes.is_empty() && list.stopwords.is_empty() {
            return Err(self.error(&spanned.span(), RuleProblem::EmptyAllowlist));
        }
        let conditions = [
            ("OR", Condition::Any),
            ("||", Condition::Any),
            ("AND", Condition::All),
            ("&&", Condition::All),
        ];
        let targets =
            [("secret", Target::Secret), ("match", Target::Match), ("line", Target::Line)];
        let ids = |rules: &Spanned<Vec<Spanned<String>>>| {
            rules.get_ref().iter().map(|id| id.get_ref().clone()).collect()
        };
        let value = Allowlist {
            condition: self
                .word(list.condition.as_ref(), &conditions, "`OR` and `AND`")?
                .unwrap_or(Condition::Any),
            target: self
                .word(list.regex_target.as_ref(), &targets, "`secret`, `match` and `line`")?
                .unwrap_or(Target::Secret),
            paths: self.patterns(&list.paths)?,
            regexes: self.patterns(&list.regexes)?,
            stopwords: self.words(&list.stopwords)?,
            rules: list.target_rules.as_ref().map(ids),
        };
        Ok(Located { position: self.position(&spanned.span()), value })
    }

    fn word<T: Copy>(
        &self,
        spanned: Option<&Spanned<String>>,
        known: &[(&str, T)],
        shown: &'static str,
    ) -> Result<Option<T>, RulesError> {
        let Some(spanned) = spanned else { return Ok(None) };
        let word = spanned.get_ref();
        let found = known.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        match found {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let problem = RuleProblem::UnknownWord { found: word.clone(), known: shown };
                Err(self.error(&spanned.span(), problem))
            }
        }
    }
}
