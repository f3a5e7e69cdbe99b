//! Faults of a worker's surroundings, by name.

use crate::fault::faults;

faults! {
    /// A fault of a worker's process, source, handler or sink, or an operator's intervention.
    WorkerFault {
        HandlerSlow = "handler slower than usual",
        HandlerHung = "handler hung for longer than its lease",
        HandlerFailed = "handler failed, retryable",
        HandlerShort = "handler returned fewer outcomes than items",
        HandlerUnable = "handler failed for want of something every item needs",
        ItemPoisoned = "item that always fails",
        ItemKilled = "item that crashes the process",
        PageFailed = "page failed, retryable",
        PageRefused = "page failed for good",
        PageSlow = "page delayed",
        PageShort = "page shorter than allowed",
        EstimateFailed = "estimate failed",
        EstimateWrong = "estimate wrong",
        SplitRefused = "source proposed no split",
        SplitFailed = "split proposal failed",
        SegmentRefused = "segment could not be created",
        AppendFailed = "append failed",
        SyncSlow = "sync delayed",
        SyncFailed = "sync failed before the results were durable",
        SyncUnheard = "sync failed after the results were durable",
        CrashedInHandler = "process crashed while a handler ran",
        PausedInHandler = "process paused while a handler ran",
        CutInHandler = "process cut off from the store while a handler ran",
        RobbedInHandler = "session ended early while a handler ran",
        SkewBeyondAllowance = "calendars differ by more than the allowance",
        Stopped = "worker stopped by its operator",
        RunPaused = "run paused by an operator",
        RunCancelled = "run cancelled by an operator",
        ShardUnparked = "shard unparked by an operator",
    }
}
