//! Runs scripts: text files that alternate commands and their answers.
//!
//! A line that begins with `#` is a comment, and the first one describes the script. A line that
//! begins with a word is a command. Indented lines are the answer to the command above.
//! `UPDATE_SCRIPTS=1` writes the answers into the files instead of comparing them. Check each
//! changed answer against the rules of the protocol.
//!
//! # Before a command
//!
//! Each part is optional. The order is fixed.
//!
//! | words | meaning |
//! |---|---|
//! | `at 10` | the clock shows 10 ms, from here on |
//! | `as rival` | the tenant of this command; default `acme` |
//! | `in nightly` | the run of this command; default `main` |
//! | `fence 3` | the worker shows a lease of this fence, not the one it was granted last |
//!
//! `repeat 1..20` before all of them repeats the command. Each number replaces `{n}`, as four
//! digits, and its successor replaces `{next}`. The answer counts equal answers. `20..1` counts
//! down.
//!
//! # Commands
//!
//! `w1`, `w2` and so on are workers. The number is the worker's id. A shard is named by its id in
//! the manifest. A shard that a split made is named by its parent and a number: `0.1`, `0.1.2`.
//!
//! | command | |
//! |---|---|
//! | `coordinator tenant-shards=9 total-shards=9 bytes=99 cooldown=9 fence-floor=9` | new, empty |
//! | `raise-floor 99` | lower fences are stale from now on |
//! | `create-run lease=100 retries=3 dispatched` | the last two are optional |
//! | `register a..m m..z op 1` | |
//! | `create-run-with-shards lease=100 a..m m..z op 1` | both at once |
//! | `complete-run op 1`, and `fail-run`, `cancel-run`, `pause-run`, `resume-run` | |
//! | `unpark 0 op 1` | |
//! | `w1 acquire 0`, `w1 claim`, `w1 renew 0` | `hint` at the end shows the capacity hint |
//! | `w1 checkpoint 0 at c op 1`, `w1 complete 0 at c op 1` | |
//! | `w1 park 0 poisoned detail row-7 op 1` | the detail is optional |
//! | `w1 release 0 op 1` | |
//! | `w1 split-replace 0 a..g g..m op 1` | by these children |
//! | `w1 split-residual 0 a..m at g op 1` | the range as the worker knows it, and the boundary |
//! | `w1 request-split 0 until 90`, `w1 decline-split 0 until 90` | |
//! | `w1 candidates limit 5` | what a claim would try |
//! | `show shard 0`, `show run`, `progress`, `list available roots` | |
//! | `events` | the events since the last such command |
//!
//! The protocol does not define which of several shards a claim gets. So a script claims where one
//! shard is available, and acquires by name otherwise.
//!
//! A list is one of `all`, `active`, `available`, `leased`, `parked`, `done` and `split` shards.
//!
//! # Keys
//!
//! A key is a word. `""` is the empty key and `ab*3` is `ababab`. A cursor is `none`, a key, or
//! `key:token`. A range is `start..end`, optionally with `@cursor` and `+metadata`. `7=a..m` gives
//! it the id 7 in a manifest. `pieces:3` stands for `k00000..k00001` and the next two.
//!
//! # Answers
//!
//! `done` means that the operation took effect now, `replayed` that it had before. A refusal is
//! the protocol's error message, with names in place of ids. `no plan` and `no configuration` are
//! refusals by the client: the coordinator received nothing. After a refusal and after a replay
//! the runner checks that every run and shard is unchanged and that there was no event. Otherwise
//! the answer ends with `(yet something changed)`. An acquire that parks a shard does so by design.

mod command;
mod diff;
mod literal;
mod names;
mod render;
mod request;
mod script;
mod words;
mod world;

pub(crate) use script::{check, folder};
