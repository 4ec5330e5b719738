//! Every operator with arguments made by chance: a result or an error, nothing else.

use afferent_tests_hostile::{Random, call};

#[test]
fn absurd_arguments_are_refused() {
    let mut random = Random(3);
    let (mut ran, mut failed) = (0, 0);
    for name in call::names() {
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..64).map(|_| random.bits() as u8).collect();
            match call::call_named(name, &bytes) {
                Ok(()) => ran += 1,
                Err(_) => failed += 1,
            }
        }
    }
    println!("{ran} calls ran, {failed} were refused");
    assert!(ran > 1000 && failed > 1000, "{ran} {failed}");
}
