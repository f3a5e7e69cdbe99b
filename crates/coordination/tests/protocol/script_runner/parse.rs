//! From the text of a line to a command.

use std::iter::Peekable;
use std::str::SplitWhitespace;

use shardwright_contracts::{FenceEpoch, OpId, WorkerId};
use shardwright_coordination::{
    CoordinatorRuntimeConfig, ParkReason, RunTransition, ShardFilter, ShardStatus,
};

use super::command::{Action, Command, Line, RunAction, Settings};
use super::literal::{CursorText, Misspelt, RangeText, key, number, ranges};

const DEFAULT_TENANT: &str = "acme";
const DEFAULT_RUN: &str = "main";
/// Most shards of a story: few, so that each story's coordinator is small.
const STORY_SHARDS_MAX: usize = 20_000;

type Parsed<T> = Result<T, Misspelt>;

/// Reads one command line.
pub(super) fn parse(text: &str) -> Parsed<Line> {
    let mut words = Words(text.split_whitespace().peekable());
    let at = words.after("at").map(number).transpose()?;
    let tenant = words.after("as").unwrap_or(DEFAULT_TENANT).to_owned();
    let run = words.after("in").unwrap_or(DEFAULT_RUN).to_owned();
    let fence = words.after("fence").map(number).transpose()?;
    let command = command(&mut words)?;
    match words.0.next() {
        Some(extra) => Err(format!("`{extra}` is too much")),
        None => Ok(Line { at, tenant, run, fence, command }),
    }
}

fn command(words: &mut Words<'_>) -> Parsed<Command> {
    let name = words.next()?;
    if let Some(Ok(worker)) = name.strip_prefix('w').map(str::parse) {
        return Ok(Command::Worker(WorkerId::from_raw(worker), action(words)?));
    }
    Ok(match name {
        "coordinator" => Command::Coordinator(runtime_config(words)?),
        "raise-floor" => {
            let floor = FenceEpoch::from_raw(number(words.next()?)?);
            Command::RaiseFloor(floor.map_err(|error| error.to_string())?)
        }
        "events" => Command::Events,
        "show" => match words.next()? {
            "run" => Command::Run(RunAction::Show),
            "shard" => Command::ShowShard(words.next()?.to_owned()),
            other => return Err(format!("`{other}` cannot be shown")),
        },
        name => Command::Run(run_action(name, words)?),
    })
}

fn action(words: &mut Words<'_>) -> Parsed<Action> {
    let name = words.next()?;
    match name {
        "claim" => return Ok(Action::Claim { hint: words.flag("hint") }),
        "candidates" => {
            let limit = words.after("limit").map_or(Ok(100), number)?;
            return Ok(Action::Candidates { limit });
        }
        _ => {}
    }
    let shard = words.next()?.to_owned();
    Ok(match name {
        "acquire" => Action::Acquire { shard, hint: words.flag("hint") },
        "renew" => Action::Renew { shard, hint: words.flag("hint") },
        "checkpoint" => Action::Checkpoint { shard, cursor: words.cursor()?, op: words.op()? },
        "complete" => Action::Complete { shard, cursor: words.cursor()?, op: words.op()? },
        "park" => {
            let reason = park_reason(words.next()?)?;
            let detail = words.after("detail").map_or(Ok(Vec::new()), key)?;
            Action::Park { shard, reason, detail, op: words.op()? }
        }
        "release" => Action::Release { shard, op: words.op()? },
        "split-replace" => {
            Action::SplitReplace { shard, children: words.ranges()?, op: words.op()? }
        }
        "split-residual" => {
            let whole = RangeText::parse(words.next()?)?;
            let boundary = key(words.expect("at")?)?;
            Action::SplitResidual { shard, whole, boundary, op: words.op()? }
        }
        "request-split" => Action::RequestSplit { shard, until: number(words.expect("until")?)? },
        "decline-split" => Action::DeclineSplit { shard, until: number(words.expect("until")?)? },
        other => return Err(format!("a worker cannot `{other}`")),
    })
}

fn run_action(name: &str, words: &mut Words<'_>) -> Parsed<RunAction> {
    Ok(match name {
        "create-run" => RunAction::Create(settings(words)?),
        "register" => RunAction::Register(words.ranges()?, words.op()?),
        "create-run-with-shards" => {
            RunAction::CreateWithShards(settings(words)?, words.ranges()?, words.op()?)
        }
        "complete-run" => RunAction::Change(RunTransition::Complete, words.op()?),
        "fail-run" => RunAction::Change(RunTransition::Fail, words.op()?),
        "cancel-run" => RunAction::Change(RunTransition::Cancel, words.op()?),
        "pause-run" => RunAction::Change(RunTransition::Pause, words.op()?),
        "resume-run" => RunAction::Change(RunTransition::Resume, words.op()?),
        "unpark" => RunAction::Unpark { shard: words.next()?.to_owned(), op: words.op()? },
        "progress" => RunAction::Progress,
        "list" => RunAction::List(filter(words)?),
        other => return Err(format!("there is no command `{other}`")),
    })
}

fn settings(words: &mut Words<'_>) -> Parsed<Settings> {
    let lease = number(words.setting("lease").ok_or("a run needs `lease=`")?)?;
    let retries = words.setting("retries").map(number).transpose()?.map(|n| n as u32);
    Ok(Settings { lease, retries, dispatched: words.flag("dispatched") })
}

fn runtime_config(words: &mut Words<'_>) -> Parsed<CoordinatorRuntimeConfig> {
    let mut config = default_runtime_config();
    for word in words.0.by_ref() {
        let (name, value) = word.split_once('=').ok_or("a setting is `name=number`")?;
        let value = number(value)?;
        match name {
            "tenant-shards" => config.max_shards_per_tenant = value as usize,
            "total-shards" => config.max_total_shards = value as usize,
            "cooldown" => config.claim_cooldown_interval_ms = value,
            "bytes" => config.slab_capacity = value as u32,
            "fence-floor" => {
                config.fence_floor = FenceEpoch::from_raw(value).map_err(|e| e.to_string())?;
            }
            other => return Err(format!("a coordinator has no `{other}`")),
        }
    }
    Ok(config)
}

/// The coordinator of a story that does not say otherwise.
pub(super) fn default_runtime_config() -> CoordinatorRuntimeConfig {
    CoordinatorRuntimeConfig {
        max_shards_per_tenant: STORY_SHARDS_MAX,
        max_total_shards: STORY_SHARDS_MAX,
        slab_capacity: 1 << 20,
        ..CoordinatorRuntimeConfig::default()
    }
}

fn park_reason(name: &str) -> Parsed<ParkReason> {
    Ok(match name {
        "permission-denied" => ParkReason::PermissionDenied,
        "not-found" => ParkReason::NotFound,
        "poisoned" => ParkReason::Poisoned,
        "too-many-errors" => ParkReason::TooManyErrors,
        "other" => ParkReason::Other,
        other => return Err(format!("`{other}` is no reason to park")),
    })
}

fn filter(words: &mut Words<'_>) -> Parsed<ShardFilter> {
    let mut filter = match words.0.next() {
        None | Some("all") => ShardFilter::all(),
        Some("active") => ShardFilter::active(),
        Some("available") => ShardFilter::available(),
        Some("parked") => ShardFilter::parked(),
        Some("leased") => ShardFilter { is_leased: Some(true), ..ShardFilter::active() },
        Some("done") => ShardFilter { status: Some(ShardStatus::Done), ..ShardFilter::all() },
        Some("split") => ShardFilter { status: Some(ShardStatus::Split), ..ShardFilter::all() },
        Some(other) => return Err(format!("there is no list of `{other}` shards")),
    };
    filter.root_only = words.flag("roots");
    Ok(filter)
}

/// The words of a line that are yet to be read.
struct Words<'a>(Peekable<SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Parsed<&'a str> {
        self.0.next().ok_or_else(|| "the line ends too soon".to_owned())
    }

    /// Reads `word` if it comes next.
    fn flag(&mut self, word: &str) -> bool {
        self.0.next_if(|next| *next == word).is_some()
    }

    /// Reads `word` and what follows it, if it comes next.
    fn after(&mut self, word: &str) -> Option<&'a str> {
        self.0.next_if(|next| *next == word).and_then(|_| self.0.next())
    }

    fn expect(&mut self, word: &str) -> Parsed<&'a str> {
        self.after(word).ok_or_else(|| format!("`{word}` and a value are missing"))
    }

    /// Reads `name=value` if it comes next.
    fn setting(&mut self, name: &str) -> Option<&'a str> {
        let value = self.0.peek()?.strip_prefix(name)?.strip_prefix('=')?;
        self.0.next();
        Some(value)
    }

    fn op(&mut self) -> Parsed<OpId> {
        number(self.expect("op")?).map(OpId::from_raw)
    }

    fn cursor(&mut self) -> Parsed<CursorText> {
        CursorText::parse(self.expect("at")?)
    }

    fn ranges(&mut self) -> Parsed<Vec<RangeText>> {
        let mut all = Vec::new();
        while let Some(word) = self.0.next_if(|next| *next != "op") {
            all.extend(ranges(word)?);
        }
        Ok(all)
    }
}
