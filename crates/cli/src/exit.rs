use std::process::ExitCode;

/// How the program ends. The numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Done = 0,
    /// What was looked at is not as it should be, holds a secret, or broke a promise.
    Findings = 1,
    /// Something went wrong, or was asked in a wrong way.
    Error = 2,
    /// Everything is done but what is parked, has failed, or may not be read.
    Parked = 3,
    /// Too many items failed.
    TooManyFailures = 4,
    /// Interrupted; the same command goes on.
    Interrupted = 130,
}

/// What the help says about them.
pub(crate) const HELP: &str = "Exit codes:
  0    done
  1    scan: secrets were found; verify: something does not hold; demo: a promise was broken;
       cluster drain --wait: the time is over and the node still has shards
  2    an error, a wrong command line, or an output that cannot be written
  3    done, but items are parked or have failed, or files could not be read
  4    stopped: too many items failed
  130  interrupted; the same command goes on (node: a second signal; nothing was handed over)";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
