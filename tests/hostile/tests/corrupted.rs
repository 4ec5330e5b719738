//! Corrupted programs, with and without delegates, cause an error or a result, but no crash, no
//! hang and no large allocation.

#[path = "shared/limited.rs"]
mod limited;

use afferent_tests_hostile::{
    Random,
    execute::{self, Tally, allowance},
    mutate,
    seeds::{Seed, seeds, xnnpack_programs},
};
use limited::{SERIAL, limited};

/// Executes a corrupted program. A panic or a large allocation fails the test with `what`.
fn execute(seed: &Seed, bytes: &[u8], what: &str, total: &mut Tally) {
    execute_limited(seed, bytes, what, total, allowance(bytes.len()), execute::program);
}

/// As [`execute`], with XNNPACK delegates, which may allocate as much as the program itself.
fn execute_with_xnnpack(seed: &Seed, bytes: &[u8], what: &str, total: &mut Tally) {
    execute_limited(
        seed,
        bytes,
        what,
        total,
        2 * allowance(bytes.len()),
        execute::program_with_xnnpack,
    );
}

fn execute_limited(
    seed: &Seed,
    bytes: &[u8],
    what: &str,
    total: &mut Tally,
    limit: usize,
    run: fn(&[u8], u64) -> Tally,
) {
    *total += limited(limit, &format!("{} {what}", seed.name), || run(bytes, 1));
}

fn summary(what: &str, files: usize, tally: Tally) -> String {
    let Tally { rejected, failed, completed, .. } = tally;
    format!(
        "{files} files {what}: 0 crashes, hangs or large allocations; {rejected} methods rejected, \
         {failed} runs failed, {completed} completed"
    )
}

#[test]
fn truncated_files() {
    let _serial = SERIAL.lock();
    let (mut tally, mut files) = (Tally::default(), 0);
    for seed in seeds("model.pte") {
        for len in (0..seed.bytes.len()).step_by(64) {
            execute(&seed, &seed.bytes[..len], &format!("truncated to {len} bytes"), &mut tally);
            files += 1;
        }
    }
    println!("{}", summary("truncated", files, tally));
    assert!(tally.rejected > 100 && tally.completed < files / 10, "{tally:?}");
}

#[test]
fn files_with_one_to_four_changed_bytes() {
    let _serial = SERIAL.lock();
    let seeds = seeds("model.pte");
    let mut tally = Tally::default();
    for (round, (seed, bytes)) in mutate::corrupted(&seeds, 10_000, 1).enumerate() {
        execute(seed, &bytes, &format!("with changed bytes, round {round}"), &mut tally);
    }
    println!("{}", summary("with one to four changed bytes", 10_000, tally));
    assert!(tally.completed > 1000 && tally.rejected > 1000, "{tally:?}");
}

#[test]
fn files_with_changed_locations() {
    let _serial = SERIAL.lock();
    let seeds = seeds("model.pte");
    let (mut tally, mut random) = (Tally::default(), Random(2));
    for round in 0..1_000 {
        let seed = &seeds[round % seeds.len()];
        let mut bytes = seed.bytes.clone();
        mutate::mutate(&mut bytes, &mut random, 1 << 20);
        execute(seed, &bytes, &format!("with changed locations, round {round}"), &mut tally);
    }
    println!("{}", summary("with one to four changed locations", 1_000, tally));
    assert!(tally.completed > 100 && tally.rejected > 100, "{tally:?}");
}

#[test]
fn valid_xnnpack_programs_complete() {
    let _serial = SERIAL.lock();
    let seeds = xnnpack_programs();
    assert!(seeds.len() >= 8, "`delegates` contains the programs");
    for seed in &seeds {
        let mut tally = Tally::default();
        execute_with_xnnpack(seed, &seed.bytes, "unchanged", &mut tally);
        assert!(
            tally.completed > 0 && tally.failed + tally.rejected == 0,
            "{}: {tally:?}",
            seed.name
        );
    }
}

#[test]
fn xnnpack_programs_with_one_to_four_changed_bytes() {
    let _serial = SERIAL.lock();
    let seeds = xnnpack_programs();
    let mut tally = Tally::default();
    for (round, (seed, bytes)) in mutate::corrupted(&seeds, 20_000, 3).enumerate() {
        execute_with_xnnpack(
            seed,
            &bytes,
            &format!("with changed bytes, round {round}"),
            &mut tally,
        );
    }
    println!("{tally:?}");
    assert!(tally.completed > 1000 && tally.rejected > 1000, "{tally:?}");
}

#[test]
fn xnnpack_programs_with_changed_words() {
    let _serial = SERIAL.lock();
    let (mut tally, mut random) = (Tally::default(), Random(4));
    for seed in xnnpack_programs() {
        // The blob is small and precedes the data: set each of its words to a boundary value.
        let len = seed.bytes.len().min(8192);
        for at in (0..len.saturating_sub(4)).step_by(4) {
            let mut bytes = seed.bytes.clone();
            let values = [0, 1, 2, 7, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];
            let word: u32 = *random.pick(&values).expect("there are values");
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            execute_with_xnnpack(
                &seed,
                &bytes,
                &format!("with a changed word at {at}"),
                &mut tally,
            );
        }
    }
    println!("{tally:?}");
    assert!(tally.rejected > 1000, "{tally:?}");
}
