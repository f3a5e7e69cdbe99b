//! Defects of cursors and splits.

use super::{Mutation, SMALL, WIDE};

pub(super) const TABLE: &[Mutation] = &[
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
        name: "child-claims-progress-nobody-made",
        property: "CursorTellsTheTruth",
        config: SMALL,
        find: r#"Fresh(boundary, kept.hi, s, "child", NoOp)"#,
        replace: r#"[Fresh(boundary, kept.hi, s, "child", NoOp) EXCEPT !.cursor = boundary]"#,
    },
];
