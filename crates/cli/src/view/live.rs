//! The live view on a terminal: a line for the run, a line per worker, and messages above.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardwright_jobs::readable::printable;

use super::monitor::RunMonitor;

const REDRAWS_PER_SECOND: u8 = 8;

/// Draws the state of a monitor.
pub(crate) struct Live {
    monitor: Arc<RunMonitor>,
    screen: MultiProgress,
    lines: Mutex<Vec<ProgressBar>>,
}

impl Live {
    pub(crate) fn new(monitor: Arc<RunMonitor>) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND);
        Self { monitor, screen: MultiProgress::with_draw_target(target), lines: Mutex::default() }
    }

    pub(crate) fn begin(&self, title: &str, slots: usize) {
        let _shown = self.screen.println(title);
        let style = ProgressStyle::with_template("{wide_msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let line = || self.screen.add(ProgressBar::new(1).with_style(style.clone()));
        let lines: Vec<ProgressBar> = (0..=slots.min(32)).map(|_| line()).collect();
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&lines);
        let (monitor, screen) = (Arc::clone(&self.monitor), self.screen.clone());
        tokio::spawn(async move {
            while !monitor.has_ended() {
                draw(&monitor, &screen, &lines);
                tokio::time::sleep(Duration::from_millis(125)).await;
            }
        });
    }

    pub(crate) fn end(&self) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        draw(&self.monitor, &self.screen, &lines);
        for line in lines.iter() {
            line.finish_and_clear();
        }
        drop(lines);
        let _cleared = self.screen.clear();
    }
}

fn draw(monitor: &RunMonitor, screen: &MultiProgress, lines: &[ProgressBar]) {
    for message in monitor.take_messages() {
        let _shown = screen.println(printable(&message));
    }
    let Some((run, workers)) = lines.split_first() else { return };
    run.set_message(monitor.summary());
    let slots = monitor.slots();
    for (number, line) in workers.iter().enumerate() {
        let message = match slots.get(number) {
            Some(slot) if slot.is_paused => "paused".to_owned(),
            Some(slot) => match slot.shard {
                Some(shard) => {
                    let (shard, items) = (shard.as_raw(), slot.items);
                    let at = monitor.shown(&slot.key);
                    format!("shard {shard:016x}  {items:>8} items  {at}")
                }
                None => "waiting".to_owned(),
            },
            None => "starting".to_owned(),
        };
        line.set_message(format!("  {number:>3}  {}", printable(&message)));
    }
}
