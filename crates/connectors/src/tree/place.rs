//! A folder of a tree: what holds for all of its entries.

use std::io;

use super::Tree;
use super::exclusions::{self, Identity, Rules, RulesAbove};
use super::listing::{Kind, Listed, Listing, Request, path_below};
use super::rules::{self, MEMORY_MAX};
use crate::remainder::Remainder;

/// What holds for the entries of a folder.
#[derive(Default)]
pub(super) struct Place {
    /// The folder itself. None for a folder that is not read, above several given paths.
    identity: Option<Identity>,
    /// Where the paths begin that globs are compared with: after the given folder.
    start: usize,
    /// Whether a glob includes the folder or one around it.
    is_included: bool,
    /// The rules of the folder.
    rules: Rules,
    /// The rules from above a given folder.
    rules_above: RulesAbove,
}

/// The result of opening a folder.
pub(super) enum Opened {
    Folder(Listing, Place),
    /// Part of the state of runs.
    Forbidden,
    /// A link to a folder around it.
    Loop,
}

impl Place {
    /// Whether the entries are the given paths, which no glob or rule leaves out.
    pub(super) const fn is_above_given(&self) -> bool {
        self.identity.is_none()
    }

    /// The rules from above, if it is a given folder.
    pub(super) const fn rules_above(&self) -> &RulesAbove {
        &self.rules_above
    }

    /// Approximate memory of all its rules, in bytes.
    pub(super) fn rules_memory(&self) -> usize {
        self.own_rules_memory() + self.rules_above.memory()
    }

    fn own_rules_memory(&self) -> usize {
        self.rules.as_ref().map_or(0, |rules| rules.memory)
    }
}

impl Tree {
    /// Opens the folder with the key `prefix`. `around` has the folders around it, the nearest
    /// first. Its rules and theirs take at most [`MEMORY_MAX`] bytes, and those from above a given
    /// folder as many. `unread` decides about a file of rules that is unreadable or does not apply.
    pub(super) fn open_folder<'p>(
        &self,
        prefix: &[u8],
        around: impl Iterator<Item = &'p Place> + Clone,
        remainder: &Remainder,
        unread: impl FnOnce(io::Error) -> io::Result<()>,
    ) -> io::Result<Opened> {
        let start = match &self.given {
            None => 0,
            Some(given) => match given.start_of(prefix) {
                None => {
                    return Ok(Opened::Folder(given.listing(prefix, remainder)?, Place::default()));
                }
                Some(start) => start,
            },
        };
        // Without the `/`, with which the system would follow a link.
        let path = match prefix.strip_suffix(b"/") {
            Some(name) => path_below(&self.root, name),
            None => self.root.clone(),
        };
        let is_given = self.given.is_some() && prefix.len() == start;
        let request = Request {
            path: &path,
            prefix,
            remainder,
            forbidden: &self.forbidden,
            may_be_link: is_given || self.follows_links,
            follows_links: self.follows_links,
        };
        let Listed::Entries(listing, identity) = (self.list)(&request)? else {
            return Ok(Opened::Forbidden);
        };
        if self.follows_links && around.clone().any(|place| place.identity == Some(identity)) {
            return Ok(Opened::Loop);
        }
        let mut place = Place { identity: Some(identity), start, ..Place::default() };
        place.is_included = self.filter.includes_all()
            || prefix.len() > start && self.is_included(around.clone(), prefix, true);
        if self.rules_above.is_some() {
            let taken = around.map(Place::own_rules_memory).sum();
            match exclusions::of_folder(&path, MEMORY_MAX.saturating_sub(taken)) {
                Ok(rules) => place.rules = rules,
                Err(error) => unread(error)?,
            }
            if is_given {
                place.rules_above = exclusions::from_above(&path)?.seen_from(prefix);
            }
        }
        Ok(Opened::Folder(listing, place))
    }

    /// Whether an entry of a folder is no item: rules or globs leave it out. `around` has its
    /// folder and those around it, the nearest first.
    pub(super) fn leaves_out<'p>(
        &self,
        around: impl Iterator<Item = &'p Place> + Clone,
        key: &[u8],
        kind: Kind,
    ) -> bool {
        let Some(place) = around.clone().next().filter(|place| !place.is_above_given()) else {
            return false;
        };
        let (key, is_folder) = (key.strip_suffix(b"/").unwrap_or(key), kind == Kind::Folder);
        let below = key.get(place.start..).unwrap_or_default();
        self.filter.excludes(below, is_folder)
            || !is_folder && !self.is_included(around.clone(), key, false)
            || self.ignores(around, key, is_folder)
    }

    /// Whether a glob includes an entry or a folder around it.
    fn is_included<'p>(
        &self,
        mut around: impl Iterator<Item = &'p Place>,
        key: &[u8],
        is_folder: bool,
    ) -> bool {
        let Some(place) = around.next() else { return false };
        let key = key.strip_suffix(b"/").unwrap_or(key);
        let below = key.get(place.start..).unwrap_or_default();
        place.is_included || self.filter.includes(below, is_folder)
    }

    fn ignores<'p>(
        &self,
        around: impl Iterator<Item = &'p Place>,
        key: &[u8],
        is_folder: bool,
    ) -> bool {
        let Some(above) = &self.rules_above else { return false };
        let is_repository = key == b".git" || key.ends_with(b"/.git");
        let inside = around
            .flat_map(|place| place.rules.as_deref().into_iter().chain(&place.rules_above.sets));
        is_repository
            || rules::ignores(inside.chain(&above.sets), &path_below(&self.root, key), is_folder)
    }
}
