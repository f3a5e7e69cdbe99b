//! The first phase: workers work while everything fails that can.

use super::director::Director;
use super::operator::Order;
use crate::oracle::Finding;

impl Director {
    pub(super) fn chaos(&mut self, acts: u64) -> Result<(), Finding> {
        if self.settings.is_calm {
            return Ok(());
        }
        for _ in 0..acts {
            self.next_act_us = self.clock.now_us()
                + match self.rng.below(100) {
                    0..30 => self.rng.below(1_000),
                    30..95 => self.rng.between(1_000, 20_000),
                    _ => self.rng.between(20_000, 200_000),
                };
            self.run_until_act()?;
            // Nothing is left to disturb.
            if self.truth.status().is_some_and(shardwright_coordination::RunStatus::is_terminal) {
                return Ok(());
            }
            match self.rng.below(1_000) {
                0..60 => self.mishap(),
                60..85 => self.operator_act(),
                85..150 if self.truth.is_paused() => self.order(Order::Resume),
                _ => {}
            }
        }
        Ok(())
    }
}
