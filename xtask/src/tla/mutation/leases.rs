//! Defects of leases, fences and deadlines.

use super::{Mutation, SMALL};

pub(super) const TABLE: &[Mutation] = &[
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
