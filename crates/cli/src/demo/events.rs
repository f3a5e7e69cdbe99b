use std::str::FromStr;

/// What is done to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing: calls are made, and that is all.
    Calm,
    /// Another node joins.
    Join,
    /// An operator has a node emptied, and lets it have shards again.
    Drain,
    /// A node is told to end: it hands everything over first.
    Terminate,
    /// The node that leads is killed.
    Kill,
    /// A node stands still until others have replaced it, and goes on.
    Pause,
    /// Somebody does something to the store, from outside.
    Store,
}

impl Event {
    const ALL: [Self; 7] = [
        Self::Calm,
        Self::Join,
        Self::Drain,
        Self::Terminate,
        Self::Kill,
        Self::Pause,
        Self::Store,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Join => "join",
            Self::Drain => "drain",
            Self::Terminate => "terminate",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Store => "store",
        }
    }

    /// What people are told of it.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::Calm => "clients call, and nothing else happens",
            Self::Join => "another node joins",
            Self::Drain => "an operator has a node emptied, and lets it have shards again",
            Self::Terminate => "a node is told to end, and hands everything over first",
            Self::Kill => "the node that leads is killed",
            Self::Pause => "the node that leads stands still until it was replaced, and goes on",
            Self::Store => "somebody may do something to the store",
        }
    }

    /// Whether calls may fail of it, for a while.
    pub(crate) const fn is_trouble(self) -> bool {
        matches!(self, Self::Kill | Self::Pause | Self::Store)
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|event| event.name() == text);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("`{text}` is none of {}", names()))
    }
}
