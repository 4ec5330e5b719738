//! No input makes the parser panic or violate its guarantees.

use afferent_tests_hostile::{Random, invariants::check_file, mutate};

/// Files that together contain every field of the formats.
const FILES: [(&str, &[u8]); 8] = [
    ("add.pte", include_bytes!("../../../runtime/program/tests/data/add.pte")),
    ("cond.pte", include_bytes!("../../../runtime/program/tests/data/cond.pte")),
    ("constants", include_bytes!("../../../runtime/program/tests/data/constant_buffer.pte")),
    ("counter", include_bytes!("../../../runtime/program/tests/data/counter_initialized.pte")),
    ("every_field", include_bytes!("../../../runtime/program/tests/data/every_field.pte")),
    ("external.pte", include_bytes!("../../../runtime/program/tests/data/external.pte")),
    ("external.ptd", include_bytes!("../../../runtime/program/tests/data/external.ptd")),
    ("xnnpack", include_bytes!("../../../runtime/program/tests/data/xnnpack_inline.pte")),
];

#[test]
fn truncated_files_are_rejected_or_read() {
    for (name, file) in FILES {
        assert!(check_file(file), "{name}");
        for len in 0..file.len() {
            check_file(&file[..len]);
        }
        // Half of a file is never complete.
        assert!(!check_file(&file[..file.len() / 2]), "{name}");
    }
}

#[test]
fn corrupted_files_are_rejected_or_read() {
    let mut random = Random(1);
    let (mut accepted, mut rejected) = (0, 0);
    for (_, file) in FILES {
        for round in 0..20_000 {
            let mut changed = file.to_vec();
            if round % 8 == 0 {
                mutate::mutate(&mut changed, &mut random, 1 << 16);
            } else {
                mutate::corrupt_bytes(&mut changed, &mut random);
            }
            if check_file(&changed) { accepted += 1 } else { rejected += 1 }
        }
    }
    assert!(accepted > 10_000 && rejected > 10_000, "{accepted} accepted, {rejected} rejected");
}
