use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::{Action, Effect, Line, Outcome};

/// A call, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it was made.
    pub called: u64,
    /// When it was answered, and how; absent if the caller died or gave up.
    pub answer: Option<(u64, Outcome)>,
    /// Who called.
    pub worker: u64,
    /// Of which run.
    pub run: u64,
    /// What was asked.
    pub action: Action,
}

/// Everything that all processes wrote down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Calls, in the order in which they were made.
    pub calls: Vec<Recorded>,
    /// Keys that were processed.
    pub effects: Vec<Effect>,
}

impl History {
    /// Reads every history in a folder, that is, every file that ends in `.history`.
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

    /// Adds what one process wrote down.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let mut calls: BTreeMap<u64, Recorded> = BTreeMap::new();
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            // A process that was killed may have left half a line.
            if lines.peek().is_none() && !line.ends_with('\n') {
                break;
            }
            match serde_json::from_str(line)? {
                Line::Call { call, at, worker, run, action } => {
                    let recorded = Recorded { called: at, answer: None, worker, run, action };
                    if calls.insert(call, recorded).is_some() {
                        bail!("call {call} was made twice");
                    }
                }
                Line::Return { call, at, outcome } => {
                    let Some(recorded) = calls.get_mut(&call) else {
                        bail!("call {call} was answered and never made");
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
    fn what_is_written_down_is_read_again_and_half_a_line_is_not() {
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
