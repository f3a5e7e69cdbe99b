//! Interned node addresses: a map of many shards names a node in four bytes.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::address::NodeAddress;

/// The number of an address in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameNumber(NonZeroU32);

impl NameNumber {
    pub(crate) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The addresses in use. Free numbers are reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeNames {
    names: Vec<Option<NodeAddress>>,
    uses: Vec<u64>,
    numbers: BTreeMap<NodeAddress, NameNumber>,
    free: Vec<NameNumber>,
}

impl NodeNames {
    /// The number of an address. Counts one more user.
    pub(crate) fn take(&mut self, address: &NodeAddress) -> NameNumber {
        let number = match self.numbers.get(address) {
            Some(number) => *number,
            None => self.add(address),
        };
        if let Some(uses) = self.uses.get_mut(number.index()) {
            *uses += 1;
        }
        number
    }

    /// Ends one use of a number.
    pub(crate) fn give_back(&mut self, number: NameNumber) {
        let Some(uses) = self.uses.get_mut(number.index()) else { return };
        *uses = uses.saturating_sub(1);
        if *uses == 0
            && let Some(name) = self.names.get_mut(number.index()).and_then(Option::take)
        {
            self.numbers.remove(&name);
            self.free.push(number);
        }
    }

    /// The address of a number.
    pub(crate) fn name(&self, number: NameNumber) -> Option<&NodeAddress> {
        self.names.get(number.index())?.as_ref()
    }

    /// The address of every number, in order, or `None` where a number is free.
    pub(crate) fn all(&self) -> impl Iterator<Item = Option<&NodeAddress>> {
        self.names.iter().map(Option::as_ref)
    }

    fn add(&mut self, address: &NodeAddress) -> NameNumber {
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            self.uses.push(0);
            // Every name is used by a shard, and there are far fewer shards than numbers.
            let count = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
            NameNumber(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN))
        });
        if let Some(name) = self.names.get_mut(number.index()) {
            *name = Some(address.clone());
        }
        self.numbers.insert(address.clone(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> NodeAddress {
        NodeAddress::parse(text).unwrap()
    }

    #[test]
    fn address_keeps_its_number_while_used() {
        let mut names = NodeNames::default();
        let (a, b) = (names.take(&address("a")), names.take(&address("b")));
        assert_ne!(a, b);
        assert_eq!(names.take(&address("a")), a);
        names.give_back(a);
        assert_eq!(names.name(a), Some(&address("a")));
        names.give_back(a);
        assert_eq!(names.name(a), None);
    }

    #[test]
    fn free_numbers_are_reused() {
        let mut names = NodeNames::default();
        for n in 0..1_000 {
            let number = names.take(&address(&format!("node-{n}")));
            names.give_back(number);
        }
        assert_eq!((names.all().count(), names.numbers.len()), (1, 0));
    }
}
