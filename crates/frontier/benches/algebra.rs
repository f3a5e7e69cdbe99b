//! The cost of key arithmetic compared with a plain copy and with big integers, and the cost of
//! staging a shard.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench may use the real world"
)]

mod support;

use std::hint::black_box;

use criterion::Criterion;
use num_bigint::BigUint;
use shardwright_contracts::ShardArena;
use shardwright_contracts::limits::MAX_BUILDER_CAPACITY;
use shardwright_frontier::{
    KeyBuf, PreallocShardBuilder, PreallocShardBuilderError, byte_midpoint, key_successor,
    prefix_successor,
};

use self::support::{Bar, Recorder, is_measuring};

const KEY_SIZES: [usize; 3] = [16, 256, 4_096];
const PAIRS: usize = 64;

fn main() -> Result<(), PreallocShardBuilderError> {
    let mut criterion = Criterion::default().configure_from_args();
    let mut recorder = Recorder::new();
    for size in KEY_SIZES {
        bench_arithmetic(&mut criterion, &mut recorder, size);
    }
    let allocations = bench_builder(&mut criterion, &mut recorder)?;
    criterion.final_summary();

    for size in KEY_SIZES {
        let name = |function| format!("{function}/{size}");
        let ratio = |above, below, bar| {
            let label = format!("keys of {size} bytes, {above} against {below}");
            recorder.print_ratio(&label, &name(above), &name(below), bar);
        };
        ratio("midpoint_big_integer", "byte_midpoint", Bar::AtLeast(3.0));
        ratio("byte_midpoint", "copy_both", Bar::None);
        ratio("prefix_successor", "copy", Bar::AtMost(2.0));
        ratio("key_successor", "copy", Bar::AtMost(2.0));
    }
    print_builder(&recorder, allocations);
    Ok(())
}

fn bench_arithmetic(criterion: &mut Criterion, recorder: &mut Recorder, size: usize) {
    let pairs = ordered_pairs(size);
    let [mut copied, mut left, mut right, mut prefix, mut key, mut middle] =
        [(); 6].map(|()| KeyBuf::new());
    for (a, b) in &pairs {
        assert_eq!(byte_midpoint(a, b, &mut middle), Some(&big_integer_midpoint(a, b, size)[..]));
    }
    let each = |work: &mut dyn FnMut(&[u8], &[u8])| {
        for (a, b) in &pairs {
            work(black_box(a), black_box(b));
        }
    };
    let name = |function| format!("{function}/{size}");
    recorder.bench(
        criterion,
        PAIRS as u64,
        &mut [
            (&name("copy"), &mut || {
                each(&mut |a, _| {
                    copied.copy_from_slice(a);
                    black_box(copied.as_bytes());
                });
            }),
            (&name("prefix_successor"), &mut || {
                each(&mut |a, _| _ = black_box(prefix_successor(a, &mut prefix)));
            }),
            (&name("key_successor"), &mut || {
                each(&mut |a, _| _ = black_box(key_successor(a, &mut key)));
            }),
        ],
    );
    recorder.bench(
        criterion,
        PAIRS as u64,
        &mut [
            (&name("copy_both"), &mut || {
                each(&mut |a, b| {
                    left.copy_from_slice(a);
                    right.copy_from_slice(b);
                    black_box((left.as_bytes(), right.as_bytes()));
                });
            }),
            (&name("byte_midpoint"), &mut || {
                each(&mut |a, b| _ = black_box(byte_midpoint(a, b, &mut middle)));
            }),
            (&name("midpoint_big_integer"), &mut || {
                each(&mut |a, b| drop(black_box(big_integer_midpoint(a, b, size))));
            }),
        ],
    );
}

/// The rival: the same mean of two keys of one length, by a library for big integers.
fn big_integer_midpoint(a: &[u8], b: &[u8], size: usize) -> Vec<u8> {
    let mean = (BigUint::from_bytes_be(a) + BigUint::from_bytes_be(b)) >> 1_u32;
    let digits = mean.to_bytes_be();
    let mut key = vec![0; size.saturating_sub(digits.len())];
    key.extend_from_slice(&digits);
    key
}

/// Measures staging a full builder, and returns its number of allocations.
fn bench_builder(
    criterion: &mut Criterion,
    recorder: &mut Recorder,
) -> Result<u64, PreallocShardBuilderError> {
    const SHARDS: usize = MAX_BUILDER_CAPACITY;
    let keys: Vec<[u8; 16]> = (0..=SHARDS as u128).map(u128::to_be_bytes).collect();
    let mut arena = ShardArena::new(SHARDS as u32, 1 << 20);
    let mut builder = PreallocShardBuilder::<SHARDS>::new(&mut arena, SHARDS)?;
    let mut stage = || {
        builder.reset();
        keys.array_windows().try_for_each(|[start, end]| {
            builder.add_range(black_box(start), end, b"connector").map(drop)
        })
    };
    let mut outcome = Ok(());
    let counted = allocation_counter::measure(|| outcome = stage());
    outcome?;
    let work: &mut dyn FnMut() = &mut || drop(black_box(stage()));
    recorder.bench(criterion, SHARDS as u64, &mut [("builder/add_range", work)]);
    Ok(counted.count_total)
}

#[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
fn print_builder(recorder: &Recorder, allocations: u64) {
    if let Some(median) = recorder.median("builder/add_range").filter(|_| is_measuring()) {
        println!("staging {MAX_BUILDER_CAPACITY} shards in a builder");
        println!("    {:<26} median {median:>9.2} ns", "per shard");
        println!("    {:<26}        {allocations:>9}", "allocations in all");
    }
}

/// Random keys in ascending pairs, the same in every run.
fn ordered_pairs(size: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut state = 0x5851_f42d_4c95_7f2d_u64;
    let mut key = || -> Vec<u8> {
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(size).collect()
    };
    std::iter::repeat_with(|| {
        let (a, b) = (key(), key());
        if a < b { (a, b) } else { (b, a) }
    })
    .take(PAIRS)
    .collect()
}
