//! One operator, with arguments that the bytes make.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = afferent_tests_hostile::call::call(data);
});
