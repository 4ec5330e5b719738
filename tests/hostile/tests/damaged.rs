//! Damaged programs: an error or a result, but no crash, no hang and no large allocation.

use std::{
    alloc::System,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use afferent_tests_hostile::{
    Random,
    attempt::{self, Tally, allowance},
    mutate,
    seeds::{Seed, seeds},
};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Held by each test, because the limit is that of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Tries one damaged program; a panic or too much memory ends the test with `what`.
fn attempt(seed: &Seed, bytes: &[u8], what: &str, total: &mut Tally) {
    let before = ALLOCATOR.allocated();
    ALLOCATOR.set_limit(before + allowance(bytes.len())).expect("above what there is");
    let result = catch_unwind(AssertUnwindSafe(|| attempt::program(bytes, 1)));
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
