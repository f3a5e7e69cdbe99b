//! Refusals of a builder: its own limits, a full arena, invalid input, and their messages.

use super::*;

type Call<'a> = fn(&mut Builder<'a>) -> Result<ShardId, Error>;

/// Every way to store and stage one shard, each with valid input.
fn valid_calls<'a>() -> [Call<'a>; 4] {
    [
        |builder| builder.add_range(b"r", b"s", b""),
        |builder| builder.add_prefix(b"p", b""),
        |builder| builder.add_manifest(1, 2, 3, b""),
        |builder| builder.add_spec_ref(ShardSpecRef::new(b"a", b"b", b"")),
    ]
}

#[test]
fn config_rejects_zero_entry_limit() {
    let mut arena = arena();
    assert_eq!(Builder::new(&mut arena, 0).err(), Some(Error::EntryLimitZero));
    assert!(Builder::new(&mut arena, 1).is_ok());
}

#[test]
fn config_rejects_entry_limit_exceeding_cap() {
    let mut arena = arena();
    assert!(Builder::new(&mut arena, 8).is_ok());
    for entry_limit in [9, 10_000] {
        let error = Error::CapMismatch { entry_limit, cap: 8 };
        assert_eq!(Builder::new(&mut arena, entry_limit).err(), Some(error));
    }
    let error = Error::CapMismatch { entry_limit: 1, cap: 0 };
    assert_eq!(PreallocShardBuilder::<0>::new(&mut arena, 1).err(), Some(error));
}

#[test]
fn config_checks_the_manifest_max_before_the_cap() {
    for entry_limit in [10_001, usize::MAX] {
        let error = Error::EntryLimitExceedsManifestMax { entry_limit, max: 10_000 };
        assert_eq!(Builder::new(&mut arena(), entry_limit).err(), Some(error));
    }
}

#[test]
fn refused_configuration_leaves_the_arena_unchanged() {
    let mut arena = arena();
    let kept = arena.alloc(ShardSpecRef::new(b"a", b"b", b"")).unwrap();
    for entry_limit in [0, 9, 10_001] {
        assert!(Builder::new(&mut arena, entry_limit).is_err());
    }
    assert!(arena.get(kept).is_some());
}

#[test]
fn entry_limit_exhaustion_returns_capacity_exceeded() {
    let mut arena = arena();
    let handle = arena.alloc(ShardSpecRef::new(b"a", b"b", b"")).unwrap();
    // The limit counts, not the capacity of the type.
    let mut builder = Builder::new(&mut arena, 2).unwrap();
    builder.add_range(b"x", b"y", b"").unwrap();
    builder.add_range(b"y", b"z", b"").unwrap();
    let full = || Error::CapacityExceeded { limit: 2, current: 2, additional: 1 };
    for call in valid_calls() {
        assert_no_trace(&mut builder, full(), call);
    }
    assert_no_trace(&mut builder, full(), |builder| builder.add_spec_handle(handle));
    assert_eq!(builder.build_inputs().map(|inputs| inputs.len()), Ok(2));
}

#[test]
fn arena_slot_exhaustion_returns_slab_full() {
    let mut arena = ShardArena::new(1, 1_000);
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range(b"x", b"y", b"").unwrap();
    for call in valid_calls() {
        assert_no_trace(&mut builder, Error::SlabFull(SlabFull::Handles { max: 1 }), call);
    }
}

#[test]
fn arena_byte_exhaustion_returns_slab_full() {
    let mut arena = ShardArena::new(8, 20);
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    // Two bounds of a byte, four bytes of length, one of hint.
    builder.add_range(b"x", b"y", b"").unwrap();
    let full = |requested| Error::SlabFull(SlabFull::Bytes { requested, free: 13, capacity: 20 });
    let extra = b"1234567";
    assert_no_trace(&mut builder, full(14), |builder| builder.add_range(b"a", b"b", extra));
    assert_no_trace(&mut builder, full(14), |builder| builder.add_prefix(b"p", b"12"));
    assert_no_trace(&mut builder, full(61), |builder| builder.add_manifest(1, 2, 3, b""));
    // The last byte can be used, and the failures used no number.
    assert_eq!(builder.add_range(b"a", b"b", &extra[1..]), Ok(id(1)));
    assert_eq!(builder.arena.bytes_used(), 20);
}

#[test]
fn add_spec_ref_slab_full() {
    let mut arena = ShardArena::new(8, 5);
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    let full = SlabFull::Bytes { requested: 6, free: 5, capacity: 5 };
    assert_no_trace(&mut builder, Error::SlabFull(full), |builder| {
        builder.add_spec_ref(ShardSpecRef::new(b"a", b"b", b"meta"))
    });
    assert_eq!(builder.add_spec_ref(ShardSpecRef::new(b"a", b"b", b"met")), Ok(id(0)));
}

#[test]
fn add_range_with_inverted_bounds_returns_range_invalid() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    for (start, end) in [(b"b", b"a"), (b"b", b"b")] {
        assert_no_trace(&mut builder, Error::RangeInvalid(inverted(1)), |builder| {
            builder.add_range(start, end, b"")
        });
    }
    let long = [1; MAX_KEY_SIZE + 1];
    let error = ShardSpecInputError::KeyTooLarge { size: 4_097, max: 4_096 };
    assert_no_trace(&mut builder, Error::RangeInvalid(error), |builder| {
        builder.add_range(b"\0", &long, b"")
    });
}

#[test]
fn add_prefix_with_empty_prefix_returns_prefix_invalid() {
    let long = [1; MAX_KEY_SIZE + 1];
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    for (prefix, error) in [
        (&b""[..], PrefixShardError::EmptyPrefix),
        (b"\xff\xff", PrefixShardError::NoSuccessor),
        (&long, PrefixShardError::PrefixTooLarge { size: 4_097, max: 4_096 }),
    ] {
        assert_no_trace(&mut builder, Error::PrefixInvalid(error), |builder| {
            builder.add_prefix(prefix, b"")
        });
    }
}

#[test]
fn add_manifest_with_inverted_rows_returns_manifest_ctor_invalid() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    for (start_row, end_row) in [(3, 2), (3, 3)] {
        assert_no_trace(&mut builder, Error::ManifestCtorInvalid(inverted(16)), |builder| {
            builder.add_manifest(1, start_row, end_row, b"")
        });
    }
}

#[test]
fn add_spec_ref_rejects_inverted_range() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    assert_no_trace(&mut builder, Error::SpecInvalid(inverted(2)), |builder| {
        builder.add_spec_ref(ShardSpecRef::new(b"bb", b"aa", b""))
    });
}

#[test]
fn oversized_metadata_is_refused_by_each_method() {
    let extra = [7; MAX_METADATA_SIZE + 1];
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    let error = ShardSpecInputError::MetadataTooLarge { size: 16_385, max: 16_384 };
    assert_no_trace(&mut builder, Error::RangeInvalid(error), |builder| {
        builder.add_range(b"a", b"b", &extra[5..])
    });
    assert_no_trace(&mut builder, Error::RangeInvalid(error), |builder| {
        builder.split_range_by_boundaries(b"a", &[b"b"], b"c", &extra[5..])
    });
    assert_no_trace(&mut builder, Error::PrefixInvalid(error.into()), |builder| {
        builder.add_prefix(b"p", &extra[10..])
    });
    assert_no_trace(&mut builder, Error::ManifestCtorInvalid(error), |builder| {
        builder.add_manifest(1, 2, 3, &extra[29..])
    });
    assert_no_trace(&mut builder, Error::ManifestCtorInvalid(error), |builder| {
        builder.split_manifest_by_rows(1, 2, 4, 1, &extra[29..])
    });
    assert_no_trace(&mut builder, Error::SpecInvalid(error), |builder| {
        builder.add_spec_ref(ShardSpecRef::new(b"a", b"b", &extra))
    });
    // With one byte less each, all of them fit.
    builder.add_prefix(b"p", &extra[11..]).unwrap();
    builder.add_manifest(1, 2, 3, &extra[30..]).unwrap();
    builder.add_spec_ref(ShardSpecRef::new(b"a", b"b", &extra[1..])).unwrap();
    assert!(builder.build_inputs().is_ok());
    builder.reset();
    builder.split_range_by_boundaries(b"a", &[b"b"], b"c", &extra[6..]).unwrap();
    assert_eq!(builder.add_range(b"c", b"d", &extra[6..]), Ok(id(2)));
}

#[test]
fn limit_errors_have_no_source() {
    for (error, text) in [
        (Error::EntryLimitZero, "a builder needs room for at least one shard"),
        (
            Error::CapMismatch { entry_limit: 9, cap: 8 },
            "a limit of 9 shards exceeds the 8 that this builder has room for",
        ),
        (
            Error::EntryLimitExceedsManifestMax { entry_limit: 9, max: 8 },
            "a limit of 9 shards exceeds the 8 that a run may start with",
        ),
        (
            Error::CapacityExceeded { limit: 8, current: 6, additional: 3 },
            "3 more shards beside 6 exceed 8",
        ),
        (
            Error::FanOutExceeded { limit: 256, requested: 257 },
            "a split into 257 shards exceeds 256",
        ),
        (Error::InvalidSpecHandle, "the handle names no spec in this builder's arena"),
    ] {
        assert_eq!(error.to_string(), text);
        assert!(error.source().is_none());
    }
}

#[test]
fn shard_errors_have_a_source() {
    let spec = "the range is empty or inverted (start of 1 bytes, end of 1 bytes)";
    for (error, text, source) in [
        (
            Error::SlabFull(SlabFull::Handles { max: 3 }),
            "the arena is full",
            "all 3 handles are in use",
        ),
        (Error::RangeInvalid(inverted(1)), "the range makes no valid shard", spec),
        (
            Error::PrefixInvalid(PrefixShardError::EmptyPrefix),
            "the prefix makes no valid shard",
            "a prefix must not be empty",
        ),
        (Error::ManifestCtorInvalid(inverted(1)), "the rows make no valid shard", spec),
        (Error::SpecInvalid(inverted(1)), "the spec is invalid", spec),
        (
            Error::ManifestInvalid(ManifestValidationError::Empty),
            "the staged shards make no manifest",
            "a manifest needs at least one shard",
        ),
    ] {
        assert_eq!(error.to_string(), text);
        assert_eq!(error.source().unwrap().to_string(), source);
    }
    let prefix = Error::PrefixInvalid(inverted(1).into());
    assert_eq!(prefix.source().unwrap().source().unwrap().to_string(), spec);
}
