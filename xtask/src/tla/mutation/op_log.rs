//! Defects of op ids, the op log and its replays.

use super::{Mutation, SMALL, WIDE};

pub(super) const TABLE: &[Mutation] = &[
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
