//! Rules of the specification, each broken on purpose.

use anyhow::{Result, bail};

use super::config;

/// The module that is broken. The others only define how to check it.
pub(crate) const MODULE: &str = "ShardRun.tla";

const SMALL: &str = "small.cfg";
const WIDE: &str = "wide.cfg";
const LIVENESS: &str = "liveness.cfg";

/// A defect: the property that must catch it, the bounds, and a text that occurs once in the module
/// with its replacement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    pub(crate) property: &'static str,
    pub(crate) config: &'static str,
    find: &'static str,
    replace: &'static str,
}

/// Every defect that must be caught.
pub(crate) fn all() -> Vec<Mutation> {
    [LEASES, OP_LOG, SHARDS, RUNS].concat()
}

impl Mutation {
    /// The module with the defect. If the text does not occur exactly once, this fails: the table
    /// must follow the module.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        match text.matches(self.find).count() {
            1 => Ok(text.replacen(self.find, self.replace, 1)),
            count => bail!("the text to replace occurs {count} times in {MODULE}"),
        }
    }

    /// The module that TLC is started on.
    pub(crate) fn root_module(&self) -> &'static str {
        if config::is_temporal(self.config) { "ShardRunLiveness.tla" } else { "ShardRunCheck.tla" }
    }
}

/// Defects of leases, fences and deadlines.
const LEASES: &[Mutation] = &[
    Mutation {
        name: "fence-unchecked",
        property: "ZombiesRefused",
        config: SMALL,
        find: r#"ELSE IF f # shard[s].fence THEN "stale fence""#,
        replace: "",
    },
    Mutation {
        name: "deadline-itself-still-counts",
        property: "OnlyTheHolderWrites",
        config: SMALL,
        find: "shard[s].left <= 0",
        replace: "shard[s].left < 0",
    },
    Mutation {
        name: "owner-unchecked",
        property: "OneWriterPerFence",
        config: SMALL,
        find: r#"ELSE IF w # shard[s].owner THEN "not the owner""#,
        replace: "",
    },
    Mutation {
        name: "lease-of-an-ended-run-still-good",
        property: "RunEndIsFinal",
        config: SMALL,
        find: r#"  IF run.status # "Active" THEN "run ended""#,
        replace: r#"  IF FALSE THEN "run ended""#,
    },
    Mutation {
        name: "paused-run-refuses-its-holders",
        property: "HolderHeard",
        config: SMALL,
        find: r#"  IF run.status # "Active" THEN "run ended""#,
        replace: r#"  IF run.status # "Active" \/ run.paused THEN "run ended""#,
    },
    Mutation {
        name: "acquire-in-an-ended-run",
        property: "RunEndIsFinal",
        config: SMALL,
        find: "  /\\ run.status = \"Active\"\n  /\\ ~run.paused",
        replace: r"  /\ ~run.paused",
    },
    Mutation {
        name: "acquire-in-a-paused-run",
        property: "PausedGrantsNothing",
        config: SMALL,
        find: r"  /\ ~run.paused",
        replace: "",
    },
    Mutation {
        name: "acquire-of-a-finished-shard",
        property: "TerminalStaysTerminal",
        config: SMALL,
        find: "  /\\ shard[s].status = \"Active\"\n  /\\ shard[s].owner",
        replace: r"  /\ shard[s].owner",
    },
    Mutation {
        name: "acquire-takes-a-live-lease",
        property: "LiveLeasesStand",
        config: SMALL,
        find: r"  /\ shard[s].owner = NoWorker \/ Expired(s)",
        replace: "",
    },
    Mutation {
        name: "take-over-keeps-the-fence",
        property: "OneWriterPerFence",
        config: SMALL,
        find: "![s].left = LeaseTicks,\n                            ![s].fence = NewFence(@)]",
        replace: "![s].left = LeaseTicks,\n                            \
                  ![s].fence = IF shard[s].owner = NoWorker THEN NewFence(@) ELSE @]",
    },
    Mutation {
        name: "acquire-starts-from-the-beginning",
        property: "CursorForward",
        config: SMALL,
        find: "![s].left = LeaseTicks,",
        replace: "![s].left = LeaseTicks, ![s].cursor = NoKey,",
    },
    Mutation {
        name: "renew-after-expiry",
        property: "OnlyTheHolderWrites",
        config: SMALL,
        find: r#"/\ LeaseAnswer(w, s, f) = "accepted""#,
        replace: r#"/\ LeaseAnswer(w, s, f) \in {"accepted", "expired"}"#,
    },
    Mutation {
        name: "release-keeps-the-lease",
        property: "GivenBackAtOnce",
        config: SMALL,
        find: "[shard EXCEPT ![s] = Unleased(kept)]",
        replace: "[shard EXCEPT ![s] = kept]",
    },
    Mutation {
        name: "parked-shard-keeps-its-lease",
        property: "OnlyActiveShardsAreLeased",
        config: SMALL,
        find: r#"[Unleased(kept) EXCEPT !.status = "Parked"]"#,
        replace: r#"[kept EXCEPT !.status = "Parked"]"#,
    },
    Mutation {
        name: "clock-runs-past-deadlines",
        property: "TypeOK",
        config: SMALL,
        find: "!.left = @ - 1]",
        replace: "!.left = @ - 3]",
    },
];

/// Defects of op ids, the op log and its replays.
const OP_LOG: &[Mutation] = &[
    Mutation {
        name: "op-log-consulted-after-the-lease",
        property: "RetryAnswered",
        config: SMALL,
        find: "IF known # \"new\" THEN known\n      ELSE IF lease # \"accepted\" THEN lease",
        replace: "IF lease # \"accepted\" THEN lease\n      ELSE IF known # \"new\" THEN known",
    },
    Mutation {
        name: "replay-executed-again",
        property: "OneEffectPerOp",
        config: SMALL,
        find: r"/\ UNCHANGED core",
        replace: r#"/\ r.kind # "unpark" /\ Accept(NoWorker, s, r)"#,
    },
    Mutation {
        name: "reused-op-id-executed",
        property: "OneEffectPerOp",
        config: SMALL,
        find: r#"shard[s].log[i] = r THEN "replayed" ELSE "conflict""#,
        replace: r#"shard[s].log[i] = r THEN "replayed" ELSE "new""#,
    },
    Mutation {
        name: "op-log-not-consulted",
        property: "RetryAnswered",
        config: SMALL,
        find: r"IF r.op \in LoggedOps(s)",
        replace: "IF FALSE",
    },
    Mutation {
        name: "log-never-evicts",
        property: "LogBoundedAndUnique",
        config: SMALL,
        find: "IF Len(longer) > LogCapacity THEN Tail(longer) ELSE longer",
        replace: "longer",
    },
    Mutation {
        name: "newest-entry-evicted",
        property: "LogKeepsTheNewest",
        config: SMALL,
        find: "THEN Tail(longer) ELSE longer",
        replace: "THEN shard[s].log ELSE longer",
    },
    Mutation {
        name: "residual-forgotten-with-its-entry",
        property: "OneResidualPerOp",
        config: WIDE,
        find: r#"ELSE IF r.kind = "residual" /\ r.op \in BornOps(s)"#,
        replace: "ELSE IF FALSE",
    },
    Mutation {
        name: "unpark-keeps-the-fence",
        property: "FencesRise",
        config: SMALL,
        find: "Logged(s, r),\n                                  ![s].fence = NewFence(@)]",
        replace: "Logged(s, r)]",
    },
];

/// Defects of cursors and splits.
const SHARDS: &[Mutation] = &[
    Mutation {
        name: "cursor-may-go-back",
        property: "CursorForward",
        config: SMALL,
        find: "k >= shard[s].cursor",
        replace: "TRUE",
    },
    Mutation {
        name: "end-of-the-range-is-inside",
        property: "CursorInBounds",
        config: SMALL,
        find: "k < shard[s].hi",
        replace: "k <= shard[s].hi",
    },
    Mutation {
        name: "split-before-the-cursor",
        property: "CursorInBounds",
        config: SMALL,
        find: r"  /\ boundary > shard[s].cursor",
        replace: "",
    },
    Mutation {
        name: "residual-one-key-too-late",
        property: "LeavesTile",
        config: WIDE,
        find: "rest == Fresh(boundary, kept.hi,",
        replace: "rest == Fresh(boundary + 1, kept.hi,",
    },
    Mutation {
        name: "narrowed-parent-keeps-a-key-too-many",
        property: "LeavesTile",
        config: WIDE,
        find: "[kept EXCEPT !.hi = boundary]",
        replace: "[kept EXCEPT !.hi = boundary + 1]",
    },
    Mutation {
        name: "gap-between-children",
        property: "SplitsAreAtomic",
        config: WIDE,
        find: "second == Fresh(boundary, kept.hi,",
        replace: "second == Fresh(boundary + 1, kept.hi,",
    },
    Mutation {
        name: "second-child-not-published",
        property: "SplitsAreAtomic",
        config: SMALL,
        find: "![NextSlot] = first,\n                    ![NextSlot + 1] = second]",
        replace: "![NextSlot] = first]",
    },
    Mutation {
        name: "replaced-parent-stays-active",
        property: "LeavesTile",
        config: SMALL,
        find: r#"[Unleased(kept) EXCEPT !.status = "Split"]"#,
        replace: "Unleased(kept)",
    },
    Mutation {
        name: "child-starts-with-a-cursor",
        property: "CursorMatchesWork",
        config: SMALL,
        find: r#"Fresh(boundary, kept.hi, s, "child", NoOp)"#,
        replace: r#"[Fresh(boundary, kept.hi, s, "child", NoOp) EXCEPT !.cursor = boundary]"#,
    },
];

/// Defects of whole runs: their end, and whether they get there.
const RUNS: &[Mutation] = &[
    Mutation {
        name: "run-done-with-active-shards",
        property: "DoneMeansProcessed",
        config: SMALL,
        find: r"CompleteRun == RunIsActive /\ AllSettled /\",
        replace: r"CompleteRun == RunIsActive /\",
    },
    Mutation {
        name: "run-done-with-parked-shards",
        property: "DoneMeansProcessed",
        config: SMALL,
        find: "{\"Done\", \"Split\"}\n\n",
        replace: "{\"Done\", \"Split\", \"Parked\"}\n\n",
    },
    Mutation {
        name: "ended-run-revived",
        property: "RunEndIsFinal",
        config: SMALL,
        find: r"Pause  == RunIsActive /\",
        replace: "Pause  ==",
    },
    Mutation {
        name: "unpark-in-an-ended-run",
        property: "RunEndIsFinal",
        config: SMALL,
        find: r#"ELSE IF run.status # "Active" THEN "run ended""#,
        replace: r#"ELSE IF FALSE THEN "run ended""#,
    },
    Mutation {
        name: "shard-granted-only-once",
        property: "FreeShardsGetLeased",
        config: LIVENESS,
        find: r"  /\ shard[s].owner = NoWorker \/ Expired(s)",
        replace: r"  /\ shard[s].fence = 0",
    },
    Mutation {
        name: "expired-lease-never-taken-over",
        property: "CrashedHoldersAreReplaced",
        config: LIVENESS,
        find: r"  /\ shard[s].owner = NoWorker \/ Expired(s)",
        replace: r"  /\ shard[s].owner = NoWorker",
    },
    Mutation {
        name: "progress-lost-with-each-lease",
        property: "HealedRunsGetDone",
        config: LIVENESS,
        find: "![s].left = LeaseTicks,",
        replace: "![s].left = LeaseTicks, ![s].cursor = NoKey,",
    },
    Mutation {
        name: "parked-shard-cannot-be-unparked",
        property: "HealedRunsGetDone",
        config: LIVENESS,
        find: r#"ELSE IF shard[s].status # "Parked" THEN"#,
        replace: "ELSE IF TRUE THEN",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_only_where_it_occurs_once() {
        let mutation =
            Mutation { name: "n", property: "P", config: SMALL, find: "x < y", replace: "x <= y" };
        assert_eq!(mutation.apply("a == x < y").unwrap(), "a == x <= y");
        assert!(mutation.apply("a == y < x").is_err());
        assert!(mutation.apply("x < y x < y").is_err());
    }
}
