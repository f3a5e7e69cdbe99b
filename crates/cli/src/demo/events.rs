use std::str::FromStr;

/// An event in the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Only calls.
    Calm,
    /// Another node joins.
    Join,
    /// An operator drains a node, and ends the drain.
    Drain,
    /// A node gets SIGTERM, and hands over its shards before it exits.
    Terminate,
    /// The leader is killed.
    Kill,
    /// The leader is stopped, and continues after other nodes have replaced it.
    Pause,
    /// The user may disturb the store from outside.
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

    /// The description in the report.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Calm => "clients call, without any event",
            Self::Join => "a node joins",
            Self::Drain => "an operator drains a node, and ends the drain",
            Self::Terminate => "a node gets SIGTERM, and hands over its shards",
            Self::Kill => "the leader is killed",
            Self::Pause => "the leader is stopped, and continues after it was replaced",
            Self::Store => "5 seconds for you to disturb the store",
        }
    }

    /// Whether calls may fail for a while.
    pub(crate) const fn is_fault(self) -> bool {
        matches!(self, Self::Kill | Self::Pause | Self::Store)
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|event| event.name() == text);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("unknown event `{text}`; use {}", names()))
    }
}
