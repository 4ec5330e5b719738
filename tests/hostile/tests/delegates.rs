//! Damaged programs with delegates: an error or a result, but no crash, no hang and no large
//! allocation.

use std::{
    alloc::System,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use afferent_tests_hostile::{
    Random,
    attempt::{self, Tally, allowance},
    mutate,
    seeds::{self, Seed},
};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Held by each test, because the limit is that of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn attempt(seed: &Seed, bytes: &[u8], what: &str, total: &mut Tally) {
    let before = ALLOCATOR.allocated();
    ALLOCATOR.set_limit(before + 2 * allowance(bytes.len())).expect("above what there is");
    let result = catch_unwind(AssertUnwindSafe(|| attempt::delegated(bytes, 1)));
    ALLOCATOR.set_limit(usize::MAX).expect("above what there is");
    let Ok(tally) = result else { panic!("{} {what}", seed.name) };
    total.refused += tally.refused;
    total.failed += tally.failed;
    total.ran += tally.ran;
}

#[test]
fn the_seeds_run() {
    let _alone = ALONE.lock();
    let seeds = seeds::delegated();
    assert!(seeds.len() >= 8, "the delegates are here");
    for seed in &seeds {
        let mut tally = Tally::default();
        attempt(seed, &seed.bytes, "undamaged", &mut tally);
        assert!(tally.ran > 0 && tally.failed + tally.refused == 0, "{}: {tally:?}", seed.name);
    }
}

#[test]
fn delegates_with_one_to_four_wrong_bytes() {
    let _alone = ALONE.lock();
    let seeds = seeds::delegated();
    let mut tally = Tally::default();
    for (round, (seed, bytes)) in mutate::damaged(&seeds, 20_000, 3).enumerate() {
        attempt(seed, &bytes, &format!("with wrong bytes, round {round}"), &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.ran > 1000 && tally.refused > 1000, "{tally:?}");
}

#[test]
fn delegates_with_wrong_words() {
    let _alone = ALONE.lock();
    let (mut tally, mut random) = (Tally::default(), Random(4));
    for seed in seeds::delegated() {
        // The blob is small and lies before the data: words of it, set to what numbers break on.
        let len = seed.bytes.len().min(8192);
        for at in (0..len.saturating_sub(4)).step_by(4) {
            let mut bytes = seed.bytes.clone();
            let word = [0, 1, 2, 7, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];
            let word: u32 = *random.pick(&word).expect("some");
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            attempt(&seed, &bytes, &format!("with another word at {at}"), &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.refused > 1000, "{tally:?}");
}
