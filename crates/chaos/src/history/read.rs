//! Reads the histories of all processes from a folder, and joins each call with its answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::{Action, Effect, Line, Outcome};

/// A call and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Time of the call.
    pub called: u64,
    /// Time and content of the answer. Absent if the caller died or stopped waiting.
    pub answer: Option<(u64, Outcome)>,
    /// The caller.
    pub worker: u64,
    /// The run.
    pub run: u64,
    /// The request.
    pub action: Action,
}

/// The recorded history of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Calls, in the order of their times.
    pub calls: Vec<Recorded>,
    /// Processed keys.
    pub effects: Vec<Effect>,
}

impl History {
    /// Reads all files in a folder that end in `.history`.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut history = Self::default();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "history") {
                let text = fs::read_to_string(&path)?;
                history.add(&text).with_context(|| path.display().to_string())?;
            }
        }
        history.calls.sort_by_key(|recorded| recorded.called);
        history.effects.sort_by_key(|effect| effect.at);
        Ok(history)
    }

    /// Adds the history of one process.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let mut calls: BTreeMap<u64, Recorded> = BTreeMap::new();
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            // A killed process may leave an incomplete last line.
            if lines.peek().is_none() && !line.ends_with('\n') {
                break;
            }
            match serde_json::from_str(line)? {
                Line::Call { call, at, worker, run, action } => {
                    let recorded = Recorded { called: at, answer: None, worker, run, action };
                    if calls.insert(call, recorded).is_some() {
                        bail!("call {call} is recorded twice");
                    }
                }
                Line::Return { call, at, outcome } => {
                    let Some(recorded) = calls.get_mut(&call) else {
                        bail!("call {call} has an answer but was never made");
                    };
                    recorded.answer = Some((at, outcome));
                }
                Line::Effect(effect) => self.effects.push(effect),
            }
        }
        self.calls.extend(calls.into_values());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;
    use crate::history::Recorder;

    #[test]
    fn incomplete_last_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&folder.path().join("1.history")).unwrap();
        let answered = recorder.call(7, 1, Action::Claim).unwrap();
        recorder.answer(answered, Outcome::Unknown("lost".to_owned())).unwrap();
        recorder.effect(Effect { at: 3, run: 1, shard: 2, fence: 4, from: 5, to: 6 }).unwrap();
        recorder.call(7, 1, Action::Acquire { shard: 9 }).unwrap();
        let path = folder.path().join("1.history");
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"Call\":{\"call\":3,");
        fs::write(&path, text).unwrap();

        let history = History::read(folder.path()).unwrap();
        let [first, second] = &history.calls[..] else { panic!("{history:?}") };
        assert_eq!((first.worker, first.run, &first.action), (7, 1, &Action::Claim));
        let (at, outcome) = first.answer.clone().unwrap();
        assert!(at >= first.called);
        assert_eq!(outcome, Outcome::Unknown("lost".to_owned()));
        assert_eq!((&second.action, &second.answer), (&Action::Acquire { shard: 9 }, &None));
        assert_eq!(history.effects.len(), 1);
    }
}
