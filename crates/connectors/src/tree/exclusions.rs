//! What a walk excludes: state folders, by device and inode, and what `.gitignore` files exclude.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::Stat;
use rustix::process::geteuid;
use shardwright_worker::connector::{SkipReason, SkipReport};

use super::rules::{ForeignRules, MEMORY_MAX, RuleSet, foreign, is_absent};
use crate::io::may_pass;

const RULES_FILE: &str = ".gitignore";
const REPOSITORY: &str = ".git";
/// The rules of a repository.
const EXCLUDE_FILE: &str = ".git/info/exclude";
const ROOT: u32 = 0;
/// The permission bit of a folder in which users may delete only their own files.
const STICKY: u32 = 0o1000;

/// The identity of a file or folder on its machine, under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// The identity of the entry at `path`. A link is not followed.
    pub(super) fn of_link(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&std::fs::symlink_metadata(path)?))
    }

    #[expect(clippy::useless_conversion, reason = "the widths differ from system to system")]
    pub(super) fn of_stat(stat: &Stat) -> Self {
        Self { device: u64::from(stat.st_dev), inode: u64::from(stat.st_ino) }
    }
}

/// Folders and files that no walk may open.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities(Vec<Identity>);

impl Identities {
    pub(super) fn add(&mut self, identity: Identity) {
        self.0.push(identity);
    }

    pub(super) fn contains(&self, identity: Identity) -> bool {
        self.0.contains(&identity)
    }
}

/// The rules of one folder, if it has any.
pub(super) type Rules = Option<Box<RuleSet>>;

/// The rules from above a tree that apply in it, the nearest first.
#[derive(Debug, Default)]
pub(super) struct RulesAbove {
    pub(super) sets: Vec<RuleSet>,
    /// Files whose rules do not apply. Their keys are paths from the root, such as `../.gitignore`.
    pub(super) skipped: Vec<SkipReport>,
}

/// Reads the rules of the folder at `path`, which take at most `room` bytes.
///
/// In a folder with a sticky bit, users cannot delete each other's files. So they cannot exclude
/// them either: only rules of the caller, of root and of the folder's owner apply.
pub(super) fn of_folder(path: &Path, room: usize) -> io::Result<Rules> {
    let folder = match path.metadata() {
        Err(error) if is_absent(&error) => return Ok(None),
        found => found?,
    };
    let owners = Owners::with(folder.uid());
    let is_sticky = folder.mode() & STICKY != 0;
    RuleSet::read(path, &path.join(RULES_FILE), room, |file| !is_sticky || owners.have(file))
}

/// Reads the rules of the folders above a tree, up to and including its repository, nearest first.
/// Empty outside a repository.
pub(super) fn from_above(root: &Path) -> io::Result<RulesAbove> {
    let owners = Owners::with(root.metadata()?.uid());
    let mut above = RulesAbove::default();
    let Some(repository) = above.repository(root, &owners)? else { return Ok(above) };
    for folder in root.ancestors() {
        // The tree's own rules are read when it is walked.
        if folder != root {
            above.read(root, folder, RULES_FILE, &owners)?;
        }
        if folder == repository {
            above.read(root, folder, EXCLUDE_FILE, &owners)?;
            break;
        }
    }
    Ok(above)
}

impl RulesAbove {
    /// Approximate memory of the rules, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.sets.iter().map(|one| one.memory).sum()
    }

    /// The same for a tree around the folder with the key `prefix`, above which the rules are.
    pub(super) fn seen_from(mut self, prefix: &[u8]) -> Self {
        for report in &mut self.skipped {
            let (mut around, mut rest) = (prefix, report.key.as_ref());
            while let (Some(inner), Some(below)) =
                (around.strip_suffix(b"/"), rest.strip_prefix(b"../"))
            {
                let parent = inner.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                (around, rest) = (inner.get(..parent).unwrap_or_default(), below);
            }
            report.key = [around, rest].concat().into();
        }
        self
    }

    /// The innermost folder around the tree, or the tree, that is a repository of the owners.
    fn repository<'r>(&mut self, root: &'r Path, owners: &Owners) -> io::Result<Option<&'r Path>> {
        for folder in root.ancestors() {
            let found = match folder.join(REPOSITORY).symlink_metadata() {
                Ok(found) => found,
                Err(error) if is_absent(&error) => continue,
                Err(error) if may_pass(&error) => return Err(error),
                Err(error) => {
                    self.skip(root, folder, REPOSITORY, &error);
                    continue;
                }
            };
            let metadata = folder.metadata()?;
            match [metadata, found].iter().find(|one| !owners.have(one)) {
                None => return Ok(Some(folder)),
                Some(one) => self.skip(root, folder, REPOSITORY, &foreign(one.uid())),
            }
        }
        Ok(None)
    }

    fn read(&mut self, root: &Path, folder: &Path, name: &str, owners: &Owners) -> io::Result<()> {
        let room = MEMORY_MAX.saturating_sub(self.memory());
        let metadata = folder.metadata()?;
        let may_rule = |file: &Metadata| owners.have(&metadata) && owners.have(file);
        match RuleSet::read(folder, &folder.join(name), room, may_rule) {
            Ok(rules) => self.sets.extend(rules.map(|rules| *rules)),
            Err(error) if may_pass(&error) => return Err(error),
            Err(error) => self.skip(root, folder, name, &error),
        }
        Ok(())
    }

    fn skip(&mut self, root: &Path, folder: &Path, name: &str, error: &io::Error) {
        let depth = root.ancestors().take_while(|above| *above != folder).count();
        let key = ["../".repeat(depth).as_bytes(), name.as_bytes()].concat().into();
        let (reason, detail) = (skip_reason(error), Some(error.to_string()));
        self.skipped.push(SkipReport { key, reason, detail });
    }
}

/// Why a file with rules that cannot be read or does not apply is skipped.
pub(super) fn skip_reason(error: &io::Error) -> SkipReason {
    let is_foreign = error.get_ref().is_some_and(|inner| inner.is::<ForeignRules>());
    if is_foreign { SkipReason::ForeignRules } else { SkipReason::Unreadable }
}

/// The users whose rules apply: the caller, root, and one more. Naming a tree trusts its owner with
/// what is in it.
struct Owners([u32; 3]);

impl Owners {
    fn with(owner: u32) -> Self {
        Self([geteuid().as_raw(), ROOT, owner])
    }

    fn have(&self, metadata: &Metadata) -> bool {
        self.0.contains(&metadata.uid())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shown(above: &RulesAbove) -> Vec<(&[u8], SkipReason)> {
        above.skipped.iter().map(|report| (report.key.as_ref(), report.reason)).collect()
    }

    #[test]
    fn reports_from_above_a_folder_have_keys_of_the_tree() {
        let report = |key: &'static str| SkipReport {
            key: key.into(),
            reason: SkipReason::ForeignRules,
            detail: None,
        };
        let skipped = || {
            let keys = [".git", "../.gitignore", "../../.gitignore", "../../../.git"];
            keys.map(report).into()
        };
        for (prefix, expected) in [
            ("x/y/", ["x/y/.git", "x/.gitignore", ".gitignore", "../.git"]),
            ("x/", ["x/.git", ".gitignore", "../.gitignore", "../../.git"]),
            ("", [".git", "../.gitignore", "../../.gitignore", "../../../.git"]),
        ] {
            let above = RulesAbove { skipped: skipped(), ..RulesAbove::default() };
            let above = above.seen_from(prefix.as_bytes());
            let keys: Vec<&[u8]> = above.skipped.iter().map(|it| it.key.as_ref()).collect();
            assert_eq!(keys, expected.map(str::as_bytes), "{prefix}");
        }
    }

    #[test]
    fn a_repository_of_other_users_is_none() {
        let folder = tempfile::TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap().join("a/b");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(folder.path().join(EXCLUDE_FILE)).unwrap();
        let mut above = RulesAbove::default();
        let others = Owners([u32::MAX; 3]);
        assert_eq!(above.repository(&root, &others).unwrap(), None);
        assert_eq!(shown(&above), [(&b"../../.git"[..], SkipReason::ForeignRules)]);
        let ours = Owners::with(ROOT);
        let found = above.repository(&root, &ours).unwrap();
        assert_eq!(found, root.ancestors().nth(2));
        // Nor are their rules read. A folder instead of a file has none.
        let around = root.parent().unwrap();
        fs::write(around.join(RULES_FILE), "b").unwrap();
        let mut above = RulesAbove::default();
        above.read(&root, around, RULES_FILE, &others).unwrap();
        assert_eq!(
            (above.sets.len(), shown(&above)),
            (0, vec![(&b"../.gitignore"[..], SkipReason::ForeignRules)])
        );
        above.read(&root, around, RULES_FILE, &ours).unwrap();
        above.read(&root, around, EXCLUDE_FILE, &ours).unwrap();
        assert_eq!((above.sets.len(), above.skipped.len()), (1, 1));
    }
}
