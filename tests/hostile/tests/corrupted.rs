//! Damaged programs, with delegates and without: an error or a result, but no crash, no hang and no
//! large allocation.

use std::{
    alloc::System,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use afferent_tests_hostile::{
    Random,
    attempt::{self, Tally, allowance},
    mutate,
    seeds::{Seed, delegated, seeds},
};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Held by each test, because the limit is that of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Tries one damaged program; a panic or too much memory ends the test with `what`.
fn attempt(seed: &Seed, bytes: &[u8], what: &str, total: &mut Tally) {
    limited(seed, bytes, what, total, allowance(bytes.len()), attempt::program);
}

/// The same with delegates that compute, which may take as much memory as the program again.
fn attempt_delegated(seed: &Seed, bytes: &[u8], what: &str, total: &mut Tally) {
    limited(seed, bytes, what, total, 2 * allowance(bytes.len()), attempt::delegated);
}

fn limited(
    seed: &Seed,
    bytes: &[u8],
    what: &str,
    total: &mut Tally,
    limit: usize,
    run: fn(&[u8], u64) -> Tally,
) {
    let before = ALLOCATOR.allocated();
    ALLOCATOR.set_limit(before + limit).expect("above what there is");
    let result = catch_unwind(AssertUnwindSafe(|| run(bytes, 1)));
    ALLOCATOR.set_limit(usize::MAX).expect("above what there is");
    let Ok(tally) = result else { panic!("{} {what}", seed.name) };
    total.refused += tally.refused;
    total.failed += tally.failed;
    total.ran += tally.ran;
}

fn summary(what: &str, files: usize, tally: Tally) -> String {
    let Tally { refused, failed, ran, .. } = tally;
    format!(
        "{files} files {what}: 0 crashes, hangs or large allocations; {refused} methods refused, \
         {failed} runs failed, {ran} ran"
    )
}

#[test]
fn files_that_are_cut() {
    let _alone = ALONE.lock();
    let (mut tally, mut files) = (Tally::default(), 0);
    for seed in seeds("model.pte") {
        for len in (0..seed.bytes.len()).step_by(64) {
            attempt(&seed, &seed.bytes[..len], &format!("cut to {len} bytes"), &mut tally);
            files += 1;
        }
    }
    println!("{}", summary("cut short", files, tally));
    assert!(tally.refused > 100 && tally.ran < files / 10, "{tally:?}");
}

#[test]
fn files_with_one_to_four_wrong_bytes() {
    let _alone = ALONE.lock();
    let seeds = seeds("model.pte");
    let mut tally = Tally::default();
    for (round, (seed, bytes)) in mutate::damaged(&seeds, 10_000, 1).enumerate() {
        attempt(seed, &bytes, &format!("with wrong bytes, round {round}"), &mut tally);
    }
    println!("{}", summary("with one to four wrong bytes", 10_000, tally));
    assert!(tally.ran > 1000 && tally.refused > 1000, "{tally:?}");
}

#[test]
fn files_with_wrong_fields() {
    let _alone = ALONE.lock();
    let seeds = seeds("model.pte");
    let (mut tally, mut random) = (Tally::default(), Random(2));
    for round in 0..1_000 {
        let seed = &seeds[round % seeds.len()];
        let mut bytes = seed.bytes.clone();
        mutate::mutate(&mut bytes, &mut random, 1 << 20);
        attempt(seed, &bytes, &format!("with wrong fields, round {round}"), &mut tally);
    }
    println!("{}", summary("with one to four wrong fields", 1_000, tally));
    assert!(tally.ran > 100 && tally.refused > 100, "{tally:?}");
}

#[test]
fn delegates_run() {
    let _alone = ALONE.lock();
    let seeds = delegated();
    assert!(seeds.len() >= 8, "the delegates are here");
    for seed in &seeds {
        let mut tally = Tally::default();
        attempt_delegated(seed, &seed.bytes, "undamaged", &mut tally);
        assert!(tally.ran > 0 && tally.failed + tally.refused == 0, "{}: {tally:?}", seed.name);
    }
}

#[test]
fn delegates_with_one_to_four_wrong_bytes() {
    let _alone = ALONE.lock();
    let seeds = delegated();
    let mut tally = Tally::default();
    for (round, (seed, bytes)) in mutate::damaged(&seeds, 20_000, 3).enumerate() {
        attempt_delegated(seed, &bytes, &format!("with wrong bytes, round {round}"), &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.ran > 1000 && tally.refused > 1000, "{tally:?}");
}

#[test]
fn delegates_with_wrong_words() {
    let _alone = ALONE.lock();
    let (mut tally, mut random) = (Tally::default(), Random(4));
    for seed in delegated() {
        // The blob is small and lies before the data: words of it, set to what numbers break on.
        let len = seed.bytes.len().min(8192);
        for at in (0..len.saturating_sub(4)).step_by(4) {
            let mut bytes = seed.bytes.clone();
            let word = [0, 1, 2, 7, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];
            let word: u32 = *random.pick(&word).expect("some");
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            attempt_delegated(&seed, &bytes, &format!("with another word at {at}"), &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.refused > 1000, "{tally:?}");
}
