//! Reads a message of another process.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    afferent_tests_hostile::message::read(data);
});
