//! Damaged Vulkan payloads cause an error or a result, but no panic, no hang, no large allocation and
//! no lost device.

#![cfg(feature = "vulkan")]
#![expect(clippy::print_stdout, reason = "tests tell what they skip")]

#[path = "shared/limited.rs"]
mod limited;

use std::{
    env,
    time::{Duration, Instant},
};

use afferent_gpu::{Gpu, GpuOptions};
use afferent_tests_hostile::{
    Random,
    execute::{self, Tally, allowance},
    mutate,
    seeds::{Seed, payload, vulkan_programs},
};
use limited::{SERIAL, limited};

/// Bytes of the host that a file may use: the driver compiles shaders.
const DRIVER_BYTES: usize = 64 << 20;

/// Time of a file.
const LIMIT: Duration = Duration::from_secs(10);

/// True if there is a device. Without one, the tests are skipped.
fn has_device() -> bool {
    let device = Gpu::new(GpuOptions::from_env()).device().map(|_| ());
    device.inspect_err(|error| println!("skipped: no Vulkan device: {error}")).is_ok()
}

/// Loads and runs a file within limits. A panic, a large allocation or a hang fails the test with
/// `what`.
fn execute(seed: &Seed, bytes: &[u8], what: &str) -> Tally {
    let (what, start) = (format!("{} {what}", seed.name), Instant::now());
    let limit = allowance(bytes.len()) + DRIVER_BYTES;
    let tally = limited(limit, &what, || execute::program_with_vulkan(bytes, 1));
    assert!(start.elapsed() < LIMIT, "{what}: {:?}", start.elapsed());
    tally
}

/// Runs all valid programs, which fails on a lost device.
fn valid_programs_complete(seeds: &[Seed]) {
    for seed in seeds {
        let tally = execute(seed, &seed.bytes, "without damage");
        assert!(tally.completed > 0 && tally.rejected == 0, "{}: {tally:?}", seed.name);
    }
}

/// Damages payloads until `AFFERENT_DAMAGED_RUNS` of them, by default 450, have been executed.
#[test]
fn damaged_payloads_are_executed_within_limits() {
    let _serial = SERIAL.lock();
    if !has_device() {
        return;
    }
    let wanted = env::var("AFFERENT_DAMAGED_RUNS").ok().and_then(|count| count.parse().ok());
    let wanted: usize = wanted.unwrap_or(450);
    let seeds = vulkan_programs(1 << 15);
    assert!(seeds.len() > 10, "the programs of the conformance tests");
    valid_programs_complete(&seeds);
    let (mut total, mut executed, mut random) = (Tally::default(), 0, Random(3));
    let mut files = 0;
    while executed < wanted {
        assert!(files < 50 * wanted, "{executed} of {files} files were executed");
        let seed = &seeds[files % seeds.len()];
        let mut bytes = seed.bytes.clone();
        let range = payload(&bytes).expect("the program has a Vulkan payload");
        mutate::corrupt_bytes(&mut bytes[range], &mut random);
        let tally = execute(seed, &bytes, &format!("with a damaged payload, file {files}"));
        executed += usize::from(tally.failed + tally.completed > 0);
        total += tally;
        files += 1;
    }
    let Tally { rejected, failed, completed } = total;
    println!(
        "{files} files with a damaged payload, {executed} executed: {rejected} methods rejected, \
         {failed} runs failed, {completed} completed"
    );
    assert!(rejected > 0 && completed > 0, "{total:?}");
    valid_programs_complete(&seeds);
}
