//! No bytes make the reader panic or break what it promises.

use afferent_tests_hostile::{Random, mutate, reading::read};

/// Files that have between them every field of the formats.
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
fn a_part_of_a_file_is_refused_or_read() {
    for (name, file) in FILES {
        assert!(read(file), "{name}");
        for len in 0..file.len() {
            read(&file[..len]);
        }
        // Half of a file always lacks something.
        assert!(!read(&file[..file.len() / 2]), "{name}");
    }
}

#[test]
fn files_with_wrong_bytes_and_fields_are_refused_or_read() {
    let mut random = Random(1);
    let (mut accepted, mut refused) = (0, 0);
    for (_, file) in FILES {
        for round in 0..20_000 {
            let mut changed = file.to_vec();
            if round % 8 == 0 {
                mutate::mutate(&mut changed, &mut random, 1 << 16);
            } else {
                mutate::damage(&mut changed, &mut random);
            }
            if read(&changed) { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted > 10_000 && refused > 10_000, "{accepted} accepted, {refused} refused");
}
