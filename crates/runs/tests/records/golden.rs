//! The bytes of each record, field by field. They never change, so that stored data stays readable.

use shardwright_contracts::RunId;
use shardwright_engine::codec::{ClockMarkRecord, FormatRecord, StoreGenerationRecord};
use shardwright_runs::records::{
    ClaimableRecord, ManifestRecord, RequesterRecord, ReservedShardsRecord, RunNameRecord,
    RunShardsRecord, SplitRequestRecord, WaitingWorkerRecord, WatermarkRecord,
};

use crate::examples::{self, child, time};
use crate::record_tests::golden;

const TENANT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[test]
fn golden_definition() {
    let fields = [
        TENANT,
        "0100000000000000 0200000000000080", // run, shard
        "01000000 62",                       // start
        "02000000 6364",                     // end
        "04000000 6d657461",                 // metadata
        "01 0300000000000000",               // parent
        "01",                                // semantics: dispatched
        "01000000",                          // one spawned shard
        "0400000000000080 0807060504030201", // its id and fingerprint
    ];
    golden(&examples::definition(), "01 01", &fields);
}

#[test]
fn golden_progress() {
    let fields = [
        "00",                                   // status: active
        "00",                                   // not parked
        "0201000000000000",                     // fence
        "01 0700000000000000 e803000000000000", // owner, deadline
        "01 02000000 6278",                     // last key
        "01 03000000 746f6b",                   // token
        "01000000",                             // one remembered operation
        "0900000000000000 00 00",               // its id; checkpoint, completed
        "8877665544332211 8403000000000000",    // its fingerprint and time
        "03000000 01000000",                    // acquires, those without progress
    ];
    golden(&examples::progress(), "02 01", &fields);
    let fields = [
        "03",                    // status: parked
        "01 02 03000000 626164", // poisoned, detail
        "0100000000000000",      // fence
        "00",                    // no lease
        "00 00",                 // no last key, no token
        "00000000",              // no remembered operation
        "00000000 00000000",     // acquires, those without progress
    ];
    golden(&examples::parked(), "02 01", &fields);
}

#[test]
fn golden_run_and_manifest() {
    let fields = [
        TENANT,
        "0100000000000000",                  // run
        "01 3075000000000000 01 05000000",   // dispatched, lease duration, retries
        "02",                                // status: done
        "00",                                // not paused
        "6400000000000000",                  // created
        "01 e803000000000000",               // ended
        "01000000",                          // one remembered operation
        "0900000000000000 08 00",            // its id; complete run, completed
        "8877665544332211 8403000000000000", // its fingerprint and time
        "01",                                // collecting
    ];
    golden(&examples::run(), "03 01", &fields);
    let ids = ["02000000", "0100000000000000", "0302000000000000"];
    golden(&examples::manifest(), "04 01", &ids);
    golden(&ManifestRecord::default(), "04 01", &["00000000"]);
}

#[test]
fn golden_view() {
    // Status, paused, semantics, lease duration, retries.
    golden(&examples::gate(), "05 01", &["01", "01", "01 3075000000000000 01 05000000"]);
    let owner_fence_deadline = ["0700000000000000", "0200000000000000", "e803000000000000"];
    golden(&examples::binding(), "06 01", &owner_fence_deadline);
    golden(&WaitingWorkerRecord { until: time(1_000) }, "07 01", &["e803000000000000"]);
    let watermark = WatermarkRecord { reached: b"key".as_slice().into() };
    golden(&watermark, "11 01", &["03000000", "6b6579"]);
    let fields = [
        "0200000000000000",                  // fence
        "01 0800000000000000",               // requester
        "f401000000000000 dc05000000000000", // asked at, expires at
        "01 d007000000000000",               // not before
    ];
    golden(&examples::split_request(), "08 01", &fields);
    let nothing_requested =
        SplitRequestRecord { slot: Default::default(), ..examples::split_request() };
    golden(&nothing_requested, "08 01", &["0200000000000000", "00", "00"]);
    golden(&RequesterRecord { shard: child(2) }, "09 01", &["0200000000000080"]);
    golden(&ClaimableRecord, "10 01", &[]);
}

#[test]
fn golden_counts_and_marks() {
    let count = RunShardsRecord { used: 3, reserved: 64 };
    golden(&count, "0a 01", &["0300000000000000", "4000000000000000"]);
    golden(&ReservedShardsRecord { reserved: 64 }, "0b 01", &["4000000000000000"]);
    golden(&examples::stage(), "0c 01", &["0900000000000000", "8877665544332211"]);
    golden(&ClockMarkRecord { reserved_until: time(1_000) }, "0d 01", &["e803000000000000"]);
    golden(&StoreGenerationRecord { number: 2 }, "0e 01", &["02000000"]);
    golden(&FormatRecord { version: 1 }, "0f 01", &["01000000"]);
}

#[test]
fn golden_advice_and_names() {
    let fields = [
        "0200000000000000 0700000000000000", // fence, holder
        "8403000000000000",                  // when
        "0300000000000000 2c01000000000000", // items and bytes done
        "01 0700000000000000",               // items left
        "00",                                // bytes left: unknown
        "01 dc05000000000000",               // milliseconds left
        "01",                                // one item
    ];
    golden(&examples::estimate(), "12 01", &fields);
    golden(&RunNameRecord { run: RunId::from_raw(1) }, "13 01", &["0100000000000000"]);
    golden(&examples::purpose(), "14 01", &["04000000 64617461", "02000000 7b7d"]);
}
