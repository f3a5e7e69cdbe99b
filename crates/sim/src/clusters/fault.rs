//! What can go wrong between nodes, gates and the store of objects, by name.

use crate::fault::faults;

faults! {
    /// Something that goes wrong in a cluster, besides what goes wrong around its store.
    ClusterFault {
        CallLost = "call lost on the way to its node",
        CallDelayed = "call delayed on the way",
        AnswerLost = "answer lost after the call had ended",
        CallReset = "connection between processes reset",
        Unreachable = "node refused the connection",
        GateCut = "gate cut off from a node",
        NodesCut = "nodes cut off from each other",
        GateCrashed = "gate crashed",
        CallerGone = "caller went away",
        PausedBeyondSession = "node paused for longer than its session",
        LeaderStruck = "leader crashed, paused or cut off",
        LeaderDeposed = "entry of the leader taken away",
        ClaimsRefused = "node kept its session and could claim nothing",
        EffectLost = "write of an object lost",
        EffectLate = "write of an object stored after its sender had given up",
        EffectUnheard = "write of an object stored, the answer lost",
    }
}
