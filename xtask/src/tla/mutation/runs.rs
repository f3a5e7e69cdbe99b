//! Defects of whole runs: their end, and whether they get there.

use super::{LIVENESS, Mutation, SMALL};

pub(super) const TABLE: &[Mutation] = &[
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
