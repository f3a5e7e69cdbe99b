use proptest::prelude::*;

use super::*;

#[test]
fn stores_and_returns_exactly_what_was_put_in() {
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
fn a_slab_without_room_still_answers() {
    let mut slab = ByteSlab::new(0, 0);
    assert_eq!(slab.insert(b""), Err(SlabFull::Handles { max: 0 }));
    let mut slab = ByteSlab::new(1, 0);
    assert!(matches!(slab.insert(b"a"), Err(SlabFull::Bytes { .. })));
    let empty = slab.insert(b"").unwrap();
    assert_eq!(slab.get(empty), Some(&b""[..]));
    assert!(slab.remove(empty) && !slab.remove(empty));
}

#[test]
fn a_slab_with_too_many_slots_is_an_error() {
    let max_slots = MAX_SLAB_SLOTS + 1;
    let error = ByteSlab::try_new(max_slots, 0).unwrap_err();
    assert_eq!(error, SlabTooLarge { max_slots, byte_capacity: 0 });
}

#[test]
fn freed_slots_are_stale_even_when_their_place_is_taken_again() {
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
fn clearing_makes_every_slot_stale_and_all_room_free() {
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
fn a_tight_fit_behind_many_too_small_ones_is_found() {
    // Twenty free stretches of nine bytes and one of fifteen share a bin; only the last fits.
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
fn storing_and_freeing_touch_no_heap() {
    let mut slab = ByteSlab::new(64, 4_096);
    let counted = allocation_counter::measure(|| {
        let mut slots = [None; 64];
        for round in 0..4_096_usize {
            let entry = &mut slots[round * 31 % 64];
            if let Some(slot) = entry.take() {
                slab.remove(slot);
            } else {
                *entry = slab.insert(&[round as u8; 64][..round % 64]).ok();
            }
        }
        slab.clear();
    });
    assert_eq!(counted.count_total, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>),
    Remove(prop::sample::Index),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::Insert),
        4 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => Just(Step::Clear).prop_filter("rare", |_| true),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn behaves_like_a_list_of_byte_strings_within_its_bounds(steps in steps()) {
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
                        // With `n` live pieces there are at most `n + 1` gaps, so one of them
                        // holds at least the average: a smaller request cannot fail.
                        prop_assert!(requested > free / (live.len() + 1));
                    }
                },
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
            prop_assert_eq!(slab.slots_used(), live.len());
        }
        // Whatever the order, an emptied slab has its whole buffer in one piece again.
        for (slot, _) in live {
            prop_assert!(slab.remove(slot));
        }
        prop_assert!(slab.insert(&[9; 200]).is_ok());
    }
}
