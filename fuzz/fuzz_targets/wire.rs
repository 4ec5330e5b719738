//! Decodes a value of a payload type from metadata and bulk bytes of another process.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    afferent_tests_hostile::wire::decode(data);
});
