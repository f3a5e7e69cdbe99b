//! A survey of the remainder of a tree, over a bounded number of entries.

use std::collections::VecDeque;

use shardwright_contracts::limits::MAX_KEY_SIZE;
use shardwright_worker::connector::Quantity;

use super::Tree;
use super::exclusions::Identity;
use super::listing::{Kind, Listing};
use super::place::{Opened, Place};
use super::rules::MEMORY_MAX;
use crate::remainder::Remainder;
use crate::split::Piece;

/// Weight of an item in addition to its bytes, so that empty files count.
const ITEM_WEIGHT: u64 = 256;

/// The survey of a remainder.
pub(super) struct Survey {
    /// Files and unopened folders in key order. The weight of an unopened folder is a guess.
    pub(super) pieces: Vec<Piece>,
    /// Which pieces start with a file that was seen.
    pub(super) seen: Vec<bool>,
    pub(super) items: u64,
    pub(super) bytes: u64,
    /// How exact both numbers are.
    pub(super) known: fn(u64) -> Quantity,
}

/// An entry of a folder, or several neighbours counted as one.
struct Node {
    key: Vec<u8>,
    weight: u64,
    content: Content,
    /// Its folder. The root is its own.
    parent: usize,
    /// What holds for its entries, if it is an opened folder.
    place: Option<Place>,
}

enum Content {
    /// Files.
    Counted,
    Unopened,
    Opened(Vec<usize>),
}

struct Surveyor<'t> {
    tree: &'t Tree,
    remainder: &'t Remainder,
    nodes: Vec<Node>,
    unopened: VecDeque<usize>,
    budget: usize,
    /// Memory of all rules, which are kept to the end. Ends the survey like the budget.
    rules_memory: usize,
    /// Opened folders with files.
    with_files: u64,
    items: u64,
    bytes: u64,
    sampled: bool,
}

/// Reads up to about `budget` entries, those nearest to the root first.
pub(super) fn survey(tree: &Tree, remainder: &Remainder, budget: usize) -> Survey {
    let (key, content) = (Vec::new(), Content::Unopened);
    let root = Node { key, weight: 0, content, parent: 0, place: None };
    let mut surveyor = Surveyor {
        tree,
        remainder,
        nodes: vec![root],
        unopened: VecDeque::from([0]),
        budget,
        rules_memory: 0,
        with_files: 0,
        items: 0,
        bytes: 0,
        sampled: false,
    };
    while surveyor.budget > 0
        && let Some(folder) = surveyor.unopened.pop_front()
    {
        surveyor.open(folder);
    }
    surveyor.finish()
}

impl Surveyor<'_> {
    fn open(&mut self, folder: usize) {
        let Some(prefix) = self.nodes.get(folder).map(|node| node.key.clone()) else {
            return;
        };
        let parent = self.nodes.get(folder).map_or(folder, |node| node.parent);
        // The root has no place yet, so nothing is around it.
        let around = self.around(parent);
        let opened = self.tree.open_folder(&prefix, around, self.remainder, |_| Ok(()));
        // An unreadable folder has no weight. The walk reports it.
        let (listing, place) = match opened {
            Ok(Opened::Folder(listing, place)) => (listing, Some(place)),
            Ok(Opened::Forbidden | Opened::Loop) | Err(_) => (Listing::default(), None),
        };
        self.rules_memory += place.as_ref().map_or(0, Place::rules_memory);
        if let Some(node) = self.nodes.get_mut(folder) {
            node.place = place;
        }
        let before = self.items;
        // In a folder larger than the budget, every n-th entry stands for its neighbours.
        let stride = listing.len().div_ceil(self.budget.max(1)).max(1);
        self.sampled |= stride > 1;
        let mut children = Vec::new();
        for at in (0..listing.len()).step_by(stride) {
            let Some((name, kind)) = listing.get(at) else {
                break;
            };
            let together = stride.min(listing.len() - at) as u64;
            let key = [prefix.as_slice(), name].concat();
            children.extend(self.add(folder, key, kind, together));
        }
        self.with_files += u64::from(self.items > before);
        let is_full = self.rules_memory >= MEMORY_MAX;
        self.budget = if is_full { 0 } else { self.budget.saturating_sub(children.len().max(1)) };
        if let Some(node) = self.nodes.get_mut(folder) {
            node.content = Content::Opened(children);
        }
    }

    fn add(&mut self, parent: usize, key: Vec<u8>, kind: Kind, together: u64) -> Option<usize> {
        if self.tree.leaves_out(self.around(parent), &key, kind) || key.len() > MAX_KEY_SIZE {
            return None;
        }
        let (weight, content) = match kind {
            Kind::File => {
                let is_given = self.around(parent).next().is_some_and(Place::is_above_given);
                let metadata = self.tree.stat(&key, is_given).ok()?;
                if !metadata.is_file() || self.tree.forbidden.contains(Identity::of(&metadata)) {
                    return None;
                }
                let bytes = metadata.len().saturating_mul(together);
                self.items += together;
                self.bytes = self.bytes.saturating_add(bytes);
                (bytes.saturating_add(ITEM_WEIGHT * together), Content::Counted)
            }
            Kind::Folder => {
                self.unopened.push_back(self.nodes.len());
                (0, Content::Unopened)
            }
            Kind::Symlink | Kind::Special => return None,
        };
        self.nodes.push(Node { key, weight, content, parent, place: None });
        Some(self.nodes.len() - 1)
    }

    /// The places of a folder and of those around it, the nearest first.
    fn around(&self, folder: usize) -> impl Iterator<Item = &Place> + Clone {
        let chain = std::iter::successors(Some(folder), |at| {
            let parent = self.nodes.get(*at)?.parent;
            (parent != *at).then_some(parent)
        });
        chain.filter_map(|at| self.nodes.get(at)?.place.as_ref())
    }

    fn finish(mut self) -> Survey {
        // An unopened folder counts as an average one.
        let folders = self.with_files.max(1);
        let (items_each, bytes_each) = (self.items / folders, self.bytes / folders);
        let guess = bytes_each.saturating_add(items_each * ITEM_WEIGHT).max(1);
        let (mut pieces, mut seen) = (Vec::new(), Vec::new());
        let mut pending = vec![0];
        while let Some(at) = pending.pop() {
            let Some(node) = self.nodes.get_mut(at) else {
                continue;
            };
            match &node.content {
                Content::Opened(children) => pending.extend(children.iter().rev()),
                Content::Counted | Content::Unopened => {
                    let unopened = matches!(node.content, Content::Unopened);
                    let weight = if unopened { guess } else { node.weight };
                    seen.push(!unopened);
                    pieces.push(Piece { key: std::mem::take(&mut node.key), weight });
                }
            }
        }
        let unopened = self.unopened.len() as u64;
        let known = if self.sampled || unopened > 0 { Quantity::About } else { Quantity::Exact };
        let items = self.items.saturating_add(items_each.saturating_mul(unopened));
        let bytes = self.bytes.saturating_add(bytes_each.saturating_mul(unopened));
        Survey { pieces, seen, items, bytes, known }
    }
}
