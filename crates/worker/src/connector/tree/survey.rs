//! A look over what remains of a tree that ends after a bounded number of entries.

use std::collections::VecDeque;

use super::Tree;
use super::listing::{Kind, Listed, Listing, path_below};
use crate::connector::range::Remainder;
use crate::connector::split::Piece;

/// What an item weighs beside its bytes, so that empty files count for something.
const ITEM_WEIGHT: u64 = 256;

/// What was seen of a remainder.
pub(super) struct Survey {
    /// Files and unopened folders in key order, with their weights or a guess.
    pub(super) pieces: Vec<Piece>,
    pub(super) items: u64,
    pub(super) bytes: u64,
    /// Whether nothing was left out and every piece is a file.
    pub(super) complete: bool,
}

/// Something in a folder, or several in a row that are not told apart.
struct Node {
    key: Vec<u8>,
    weight: u64,
    content: Content,
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
    opened: u64,
    items: u64,
    bytes: u64,
    complete: bool,
}

/// Looks at up to about `budget` entries, those nearest to the root first.
pub(super) fn survey(tree: &Tree, remainder: &Remainder, budget: usize) -> Survey {
    let root = Node { key: Vec::new(), weight: 0, content: Content::Unopened };
    let mut surveyor = Surveyor {
        tree,
        remainder,
        nodes: vec![root],
        unopened: VecDeque::from([0]),
        budget,
        opened: 0,
        items: 0,
        bytes: 0,
        complete: true,
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
        let name = prefix.strip_suffix(b"/").unwrap_or(&prefix);
        let path = path_below(&self.tree.root, name);
        // What cannot be read weighs nothing here; the walk will report it.
        let listing = match Listing::read(&path, &prefix, self.remainder, &self.tree.forbidden) {
            Ok(Listed::Entries(listing)) => listing,
            Ok(Listed::Forbidden) | Err(_) => Listing::default(),
        };
        self.opened += 1;
        // Of a folder too large for what is left, every so manieth entry stands for its
        // neighbours.
        let stride = listing.len().div_ceil(self.budget.max(1)).max(1);
        self.complete &= stride == 1;
        let mut children = Vec::new();
        for at in (0..listing.len()).step_by(stride) {
            let Some((name, kind)) = listing.get(at) else {
                break;
            };
            let together = stride.min(listing.len() - at) as u64;
            let key = [prefix.as_slice(), name].concat();
            children.extend(self.add(key, kind, together));
        }
        self.budget = self.budget.saturating_sub(children.len().max(1));
        if let Some(node) = self.nodes.get_mut(folder) {
            node.content = Content::Opened(children);
        }
    }

    fn add(&mut self, key: Vec<u8>, kind: Kind, together: u64) -> Option<usize> {
        let (weight, content) = match kind {
            Kind::File => {
                let metadata = path_below(&self.tree.root, &key).symlink_metadata().ok()?;
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
        self.nodes.push(Node { key, weight, content });
        Some(self.nodes.len() - 1)
    }

    fn finish(mut self) -> Survey {
        self.complete &= self.unopened.is_empty();
        // Nothing is known of an unopened folder, so it is taken for one like the others.
        let known = self.bytes.saturating_add(self.items * ITEM_WEIGHT);
        let guess = (known / self.opened.max(1)).max(1);
        let mut pieces = Vec::new();
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
                    pieces.push(Piece { key: std::mem::take(&mut node.key), weight });
                }
            }
        }
        let Self { items, bytes, complete, .. } = self;
        Survey { pieces, items, bytes, complete }
    }
}
