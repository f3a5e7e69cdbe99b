//! Plays stories: text files in which commands and their answers alternate like in a chat log.
//!
//! A line that begins with `#` is a comment, and the first one says what the story shows. A line
//! that begins with a word is a command. Indented lines are the answer to the command above.
//! `UPDATE_SCRIPTS=1` writes the answers into the files instead of comparing them; whoever does so
//! checks each one against the rules of the protocol.
//!
//! # Before a command
//!
//! Each part may be missing; the order is fixed.
//!
//! | words | meaning |
//! |---|---|
//! | `at 10` | the clock shows 10 ms, from here on |
//! | `as rival` | this tenant asks, for this command; otherwise it is `acme` |
//! | `in nightly` | about this run, for this command; otherwise it is `main` |
//! | `fence 3` | the worker shows a lease of this fence, not the one it was granted last |
//!
//! `repeat 1..20` before all of them repeats the command and puts each number, as four digits, in
//! the place of `{n}`, and the one above it in that of `{next}`; the answer counts. `20..1` goes
//! down.
//!
//! # Commands
//!
//! `w1`, `w2` and so on are workers; the number is the worker's id. A shard is named by its id in
//! the manifest, and one that a split made by its parent and a number: `0.1`, `0.1.2`.
//!
//! | command | |
//! |---|---|
//! | `coordinator tenant-shards=9 total-shards=9 bytes=99 cooldown=9 fence-floor=9` | start anew |
//! | `raise-floor 99` | fences below are stale from now on |
//! | `create-run lease=100 retries=3 dispatched` | the last two may be missing |
//! | `register a..m m..z op 1` | |
//! | `create-run-with-shards lease=100 a..m m..z op 1` | both at once |
//! | `complete-run op 1`, and `fail-run`, `cancel-run`, `pause-run`, `resume-run` | |
//! | `unpark 0 op 1` | |
//! | `w1 acquire 0`, `w1 claim` | `hint` at the end also tells what else there is to do |
//! | `w1 renew 0` | here too |
//! | `w1 checkpoint 0 at c op 1`, `w1 complete 0 at c op 1` | |
//! | `w1 park 0 poisoned detail row-7 op 1` | the detail may be missing |
//! | `w1 release 0 op 1` | |
//! | `w1 split-replace 0 a..g g..m op 1` | by these children |
//! | `w1 split-residual 0 a..m at g op 1` | the range as the worker knows it, and where to cut |
//! | `w1 request-split 0 until 90`, `w1 decline-split 0 until 90` | |
//! | `w1 candidates limit 5` | what a claim would try |
//! | `show shard 0`, `show run`, `progress`, `list available roots` | |
//! | `events` | what has happened since they were last asked for |
//!
//! Which of several shards a claim gets is not a rule of the protocol, so a story claims where
//! there is one to be had, and acquires by name otherwise.
//!
//! A list is one of `all`, `active`, `available`, `leased`, `parked`, `done` and `split` shards.
//!
//! # Keys
//!
//! A key is a word; `""` is the empty one and `ab*3` is `ababab`. A cursor is `none`, a key, or
//! `key:token`. A range is `start..end`, perhaps with a `@cursor` and then `+metadata`; `7=a..m`
//! gives it the id 7 in a manifest. `pieces:3` stands for `k00000..k00001` and the next two.
//!
//! # Answers
//!
//! `done` and `replayed` tell apart what happened now and what had happened before. A refusal is
//! told in the protocol's own words, with names in the place of ids; `no plan` and `no
//! configuration` were refused before any coordinator saw them. After a refusal and after a replay
//! the runner looks whether every run and shard is as before and no event was told. If not, the
//! answer ends with `(yet something changed)`; an acquire that parks a shard is meant to do that.

mod command;
mod diff;
mod literal;
mod names;
mod parse;
mod render;
mod request;
mod story;
mod world;

pub(crate) use story::{check, folder};
