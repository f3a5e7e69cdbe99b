//! Records of the store as a whole, which belong to no protocol.

use shardwright_contracts::LogicalTime;

use crate::record;

record! { ():
    /// Upper bound of every time that the clock has returned. After a restart the clock returns no
    /// earlier time.
    #[derive(Copy)]
    ClockMarkRecord: RecordKind::ClockMark {
        /// First time that the clock has not returned.
        reserved_until: LogicalTime,
    }

    /// Number of times the store was set up or restored from a backup. Raises every fence.
    #[derive(Copy)]
    StoreGenerationRecord: RecordKind::StoreGeneration {
        /// The count.
        number: u32,
    }

    /// Layout of the store, so that older and newer code rejects it.
    #[derive(Copy)]
    FormatRecord: RecordKind::Format {
        /// Version of the layout.
        version: u32,
    }
}
