//! Calls an operator with arguments that the input determines.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = afferent_tests_hostile::call::call(data);
});
