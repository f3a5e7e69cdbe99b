//! The remedies in errors, in the words of the interface that the caller uses.

use crate::description::Mode;

/// The interface that the caller uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    CommandLine,
    Library,
}

impl Interface {
    pub(crate) const fn of(mode: Mode) -> Self {
        match mode {
            Mode::Library => Self::Library,
            Mode::Item | Mode::Batch { .. } | Mode::Persistent | Mode::Scan { .. } => {
                Self::CommandLine
            }
        }
    }

    /// How to replace a run by a new one.
    pub(crate) const fn start_over(self) -> &'static str {
        match self {
            Self::CommandLine => "add --fresh",
            Self::Library => "call `Run::fresh`",
        }
    }

    pub(crate) const fn other_name(self) -> &'static str {
        match self {
            Self::CommandLine => "choose another --run NAME",
            Self::Library => "choose another name",
        }
    }

    pub(crate) const fn other_results(self) -> &'static str {
        match self {
            Self::CommandLine => "choose another location for results with --out",
            Self::Library => "choose another location with `Run::results`",
        }
    }

    /// How to keep results on each machine.
    pub(crate) const fn local_results(self) -> &'static str {
        match self {
            Self::CommandLine => "start a new run with --out-local",
            Self::Library => "start a new run without `Run::results`",
        }
    }
}
