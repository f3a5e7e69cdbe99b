use std::fmt;

/// How the part of this process in a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything is done, or parked.
    Finished,
    /// The process was stopped; the run goes on when it is run again.
    Stopped,
}

/// What came of a run so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Items that are done, by all processes together.
    pub items: u64,
    /// Items that failed and were set aside.
    pub parked: u64,
    /// Where the result file is; none before the run is finished.
    pub results: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ending, items, parked, .. } = self;
        write!(f, "{items} items done, {parked} parked")?;
        match ending {
            Ending::Finished => Ok(()),
            Ending::Stopped => f.write_str("; stopped"),
        }
    }
}
