use std::fmt;
use std::sync::Arc;

use shardwright_placement::ObjectId;

/// Which object: its type and its id. Objects of two types may have the same id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The name under which its type is known.
    pub object_type: Arc<str>,
    /// Its id.
    pub id: ObjectId,
}

impl ObjectKey {
    /// Names an object.
    #[must_use]
    pub fn new(object_type: impl Into<Arc<str>>, id: ObjectId) -> Self {
        Self { object_type: object_type.into(), id }
    }
}

/// The calls that a call is part of: each waits for the next, the outermost comes first.
///
/// A chain says two things. Who is in it waits, so that a call to it would never end. And the
/// shards of those in it cannot be given away before the call has ended, so that it must be
/// admitted there.
#[derive(Clone, Default)]
pub struct Chain(Arc<[ObjectKey]>);

impl Chain {
    /// A chain of calls.
    #[must_use]
    pub fn new(links: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self(links.into_iter().collect())
    }

    /// The same chain, with a call to `object` at its end.
    #[must_use]
    pub fn with(&self, object: ObjectKey) -> Self {
        Self(self.0.iter().cloned().chain([object]).collect())
    }

    /// How many calls wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The objects whose calls wait.
    pub fn links(&self) -> impl ExactSizeIterator<Item = &ObjectKey> {
        self.0.iter()
    }

    /// Whether a call to `object` waits.
    #[must_use]
    pub fn holds(&self, object: &ObjectKey) -> bool {
        self.0.contains(object)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(object_type: &str, id: &str) -> ObjectKey {
        ObjectKey::new(object_type, ObjectId::parse(id).unwrap())
    }

    #[test]
    fn a_chain_holds_objects_by_type_and_id() {
        let chain = Chain::default().with(key("Counter", "a")).with(key("Room", "shard#5/x"));
        assert_eq!(chain.len(), 2);
        assert!(chain.holds(&key("Counter", "a")) && !chain.holds(&key("Room", "a")));
    }
}
