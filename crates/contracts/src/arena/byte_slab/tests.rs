use proptest::prelude::*;

use super::*;

#[test]
fn stored_bytes_are_returned_unchanged() {
    let mut slab = ByteSlab::new(3, 10);
    let first = slab.insert(b"abc").unwrap();
    let parts = slab.insert_parts(&[b"de", b"", b"f"]).unwrap();
    assert_eq!(slab.get(first), Some(&b"abc"[..]));
    assert_eq!(slab.get(parts), Some(&b"def"[..]));
    assert_eq!((slab.slots_used(), slab.bytes_used(), slab.byte_capacity()), (2, 6, 10));
}

#[test]
fn every_byte_of_the_buffer_can_be_used() {
    for capacity in [1_u32, 2, 3, 7, 8, 9, 100, 1_000, 1_023] {
        let mut slab = ByteSlab::new(2, capacity);
        let whole = vec![7; capacity as usize];
        let slot = slab.insert(&whole).unwrap();
        assert_eq!(slab.get(slot), Some(&whole[..]));
        assert!(slab.insert(b"x").is_err());
        assert!(slab.remove(slot));
        assert!(slab.insert(&whole).is_ok());
    }
}

#[test]
fn running_out_of_handles_or_bytes_stores_nothing() {
    let mut slab = ByteSlab::new(2, 4);
    let kept = slab.insert(b"abc").unwrap();
    let full = SlabFull::Bytes { requested: 2, free: 1, capacity: 4 };
    assert_eq!(slab.insert(b"xy"), Err(full));
    slab.insert(b"").unwrap();
    assert_eq!(slab.insert(b""), Err(SlabFull::Handles { max: 2 }));
    assert_eq!((slab.slots_used(), slab.bytes_used()), (2, 3));
    assert_eq!(slab.get(kept), Some(&b"abc"[..]));
}

#[test]
fn slab_without_capacity_stores_empty_strings() {
    let mut slab = ByteSlab::new(0, 0);
    assert_eq!(slab.insert(b""), Err(SlabFull::Handles { max: 0 }));
    let mut slab = ByteSlab::new(1, 0);
    assert!(matches!(slab.insert(b"a"), Err(SlabFull::Bytes { .. })));
    let empty = slab.insert(b"").unwrap();
    assert_eq!(slab.get(empty), Some(&b""[..]));
    assert!(slab.remove(empty) && !slab.remove(empty));
}

#[test]
fn slab_with_too_many_slots_is_refused() {
    let max_slots = MAX_SLAB_SLOTS + 1;
    let error = ByteSlab::try_new(max_slots, 0).unwrap_err();
    assert_eq!(error, SlabTooLarge { max_slots, byte_capacity: 0 });
}

#[test]
fn freed_slots_stay_stale_after_reuse() {
    let mut slab = ByteSlab::new(1, 4);
    let stale = slab.insert(b"old").unwrap();
    assert!(slab.remove(stale));
    assert_eq!(slab.get(stale), None);
    let fresh = slab.insert(b"new").unwrap();
    assert_eq!(slab.get(stale), None);
    assert!(!slab.remove(stale));
    assert_eq!(slab.get(fresh), Some(&b"new"[..]));
}

#[test]
fn clear_frees_every_slot() {
    let mut slab = ByteSlab::new(2, 4);
    let stale = slab.insert(b"old").unwrap();
    slab.clear();
    assert_eq!((slab.slots_used(), slab.bytes_used()), (0, 0));
    let fresh = slab.insert(b"newer"[..4].as_ref()).unwrap();
    assert_eq!(slab.get(stale), None);
    assert_eq!(slab.get(fresh), Some(&b"newe"[..]));
}

#[test]
fn slots_of_another_slab_are_foreign() {
    let mut ours = ByteSlab::new(1, 4);
    let mut theirs = ByteSlab::new(1, 4);
    let own = ours.insert(b"ours").unwrap();
    let foreign = theirs.insert(b"them").unwrap();
    assert_eq!(ours.get(foreign), None);
    assert!(!ours.remove(foreign));
    assert_eq!(ours.get(own), Some(&b"ours"[..]));
}

#[test]
fn neighbours_join_whichever_is_freed_first() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut slab = ByteSlab::new(3, 9);
        let slots = [slab.insert(b"aaa"), slab.insert(b"bbb"), slab.insert(b"ccc")];
        for index in order {
            assert!(slab.remove(slots[index].unwrap()));
        }
        assert!(slab.insert(b"123456789").is_ok(), "{order:?}");
    }
}

#[test]
fn tight_fit_behind_smaller_extents_is_found() {
    // Twenty free extents of nine bytes and one of fifteen share a bin. Only the last fits.
    let mut slab = ByteSlab::new(50, 21 * 10 + 15);
    let mut odd = Vec::new();
    let fifteen = slab.insert(&[1; 15]).unwrap();
    slab.insert(b"|").unwrap();
    for _ in 0..20 {
        odd.push(slab.insert(&[2; 9]).unwrap());
        slab.insert(b"|").unwrap();
    }
    slab.insert(&vec![3; 21 * 10 + 15 - slab.bytes_used()]).unwrap();
    slab.remove(fifteen);
    for slot in odd {
        slab.remove(slot);
    }
    assert!(slab.insert(&[4; 15]).is_ok());
    assert!(slab.insert(&[4; 10]).is_err());
}

#[test]
fn replace_makes_the_old_slot_stale() {
    let mut slab = ByteSlab::new(2, 20);
    let neighbour = slab.insert(b"neighbour").unwrap();
    let mut slot = slab.insert(b"abc").unwrap();
    for parts in [&[&b"def"[..]][..], &[b"g"], &[b"hi", b"jk"], &[], &[b"", b"lmnop"], &[b""]] {
        let stale = slot;
        slot = slab.replace_parts(stale, parts).unwrap();
        assert_eq!(slab.get(stale), None);
        assert!(!slab.remove(stale));
        assert_eq!(slab.get(slot), Some(&parts.concat()[..]));
        assert_eq!(slab.get(neighbour), Some(&b"neighbour"[..]));
        assert_eq!((slab.slots_used(), slab.bytes_used()), (2, 9 + parts.concat().len()));
    }
}

#[test]
fn replace_reuses_the_old_place_and_its_free_neighbours() {
    for (free_before, free_after) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut slab = ByteSlab::new(3, 9);
        let slots = [slab.insert(b"aaa"), slab.insert(b"bbb"), slab.insert(b"ccc")];
        let [before, old, after] = slots.map(Result::unwrap);
        let mut room = 3;
        for (is_free, neighbour) in [(free_before, before), (free_after, after)] {
            room += if is_free && slab.remove(neighbour) { 3 } else { 0 };
        }
        let used = slab.bytes_used();
        let full = SlabFull::Bytes { requested: room + 1, free: 9 - used, capacity: 9 };
        assert_eq!(slab.replace_parts(old, &[&vec![7; room + 1]]), Err(full));
        assert_eq!((slab.get(old), slab.bytes_used()), (Some(&b"bbb"[..]), used));
        let new = slab.replace_parts(old, &[&vec![7; room]]).unwrap();
        assert_eq!(slab.get(new), Some(&vec![7; room][..]));
        assert_eq!(slab.bytes_used(), 9);
        assert_eq!(slab.get(before).is_some(), !free_before);
        assert_eq!(slab.get(after).is_some(), !free_after);
    }
}

#[test]
fn replacing_needs_no_second_handle() {
    let mut slab = ByteSlab::new(1, 4);
    let slot = slab.insert(b"").unwrap();
    let slot = slab.replace_parts(slot, &[b"abcd"]).unwrap();
    let slot = slab.replace_parts(slot, &[b"efgh"]).unwrap();
    assert_eq!(slab.get(slot), Some(&b"efgh"[..]));
    assert_eq!(slab.insert(b""), Err(SlabFull::Handles { max: 1 }));
}

#[test]
fn replace_of_a_missing_slot_inserts() {
    let mut slab = ByteSlab::new(2, 4);
    let stale = slab.insert(b"a").unwrap();
    slab.remove(stale);
    let kept = slab.insert(b"b").unwrap();
    let foreign = ByteSlab::new(1, 1).insert(b"b").unwrap();
    for slot in [stale, foreign] {
        let new = slab.replace_parts(slot, &[b"new"]).unwrap();
        assert_eq!((slab.slots_used(), slab.get(kept)), (2, Some(&b"b"[..])));
        assert!(slab.replace_parts(slot, &[b""]).is_err(), "all handles are in use");
        slab.remove(new);
    }
}

#[test]
fn slab_operations_do_not_allocate() {
    // Few slots, so that their tables fill up in every way, and many.
    for max_slots in [1, 2, 3, 4, 5, 64] {
        let mut slab = ByteSlab::new(max_slots, 64 * max_slots);
        let mut slots = vec![None; max_slots as usize];
        let mut chance = 1_usize;
        let counted = allocation_counter::measure(|| {
            for _ in 0..20_000 {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (index, len) = (chance >> 40, chance >> 50);
                let (parts, index) = ([&[7; 128][..len % 128]], index % slots.len());
                slots[index] = match slots[index] {
                    None => slab.insert_parts(&parts).ok(),
                    Some(slot) if len % 3 == 0 => (!slab.remove(slot)).then_some(slot),
                    Some(slot) => slab.replace_parts(slot, &parts).ok().or(Some(slot)),
                };
            }
            slab.clear();
        });
        assert_eq!(counted.count_total, 0, "{max_slots} slots");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>),
    Replace(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index),
    Clear,
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => bytes().prop_map(Step::Insert),
        4 => (any::<prop::sample::Index>(), bytes()).prop_map(|(at, new)| Step::Replace(at, new)),
        4 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => Just(Step::Clear).prop_filter("rare", |_| true),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn slab_behaves_like_a_bounded_list(steps in steps()) {
        let (max_slots, capacity) = (12_u32, 200_u32);
        let mut slab = ByteSlab::new(max_slots, capacity);
        let mut live: Vec<(ByteSlot, Vec<u8>)> = Vec::new();
        let mut dead: Vec<ByteSlot> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(bytes) => match slab.insert(&bytes) {
                    Ok(slot) => live.push((slot, bytes)),
                    Err(SlabFull::Handles { .. }) => prop_assert_eq!(live.len(), 12),
                    Err(SlabFull::Bytes { requested, free, .. }) => {
                        let used: usize = live.iter().map(|(_, bytes)| bytes.len()).sum();
                        prop_assert_eq!((requested, free), (bytes.len(), 200 - used));
                        // `n` live slots have at most `n + 1` gaps, so one gap has at least the
                        // average length. A smaller request cannot fail.
                        prop_assert!(requested > free / (live.len() + 1));
                    }
                },
                Step::Replace(index, bytes) if !live.is_empty() => {
                    let (slot, old) = live.swap_remove(index.index(live.len()));
                    match slab.replace_parts(slot, &[&bytes]) {
                        Ok(new) => {
                            live.push((new, bytes));
                            dead.push(slot);
                        }
                        Err(full) => {
                            let lacks_bytes = matches!(full, SlabFull::Bytes { .. });
                            prop_assert!(lacks_bytes);
                            prop_assert!(bytes.len() > old.len(), "the old place was long enough");
                            live.push((slot, old));
                        }
                    }
                }
                Step::Replace(..) => {}
                Step::Remove(index) if !live.is_empty() => {
                    let (slot, _) = live.swap_remove(index.index(live.len()));
                    prop_assert!(slab.remove(slot));
                    dead.push(slot);
                }
                Step::Remove(_) => {}
                Step::Clear => {
                    slab.clear();
                    dead.extend(live.drain(..).map(|(slot, _)| slot));
                }
            }
            for (slot, bytes) in &live {
                prop_assert_eq!(slab.get(*slot), Some(&bytes[..]));
            }
            for slot in &dead {
                prop_assert_eq!(slab.get(*slot), None);
            }
            let used: usize = live.iter().map(|(_, bytes)| bytes.len()).sum();
            prop_assert_eq!((slab.slots_used(), slab.bytes_used()), (live.len(), used));
        }
        // In any order, an emptied slab has its whole buffer in one extent again.
        for (slot, _) in live {
            prop_assert!(slab.remove(slot));
        }
        prop_assert!(slab.insert(&[9; 200]).is_ok());
    }
}
