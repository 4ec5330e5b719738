//! Each operator returns a result or an error for random arguments and for huge numbers.

use afferent_tests_hostile::{Random, call};

#[test]
fn random_arguments_never_panic() {
    let mut random = Random(3);
    let (mut completed, mut rejected) = (0, 0);
    for name in call::names() {
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..64).map(|_| random.bits() as u8).collect();
            match call::call_named(name, &bytes) {
                Ok(()) => completed += 1,
                Err(_) => rejected += 1,
            }
        }
    }
    println!("{completed} calls completed, {rejected} were rejected");
    assert!(completed > 1000 && rejected > 1000, "{completed} {rejected}");
}

#[test]
fn huge_integers_take_no_time() {
    let results = call::names().flat_map(call::call_with_huge_integers);
    let (completed, rejected): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    println!("{} calls completed, {} were rejected", completed.len(), rejected.len());
    assert!(completed.len() > 1000 && rejected.len() > 1000);
}
