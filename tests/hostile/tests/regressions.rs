//! Hostile files of the kinds that fuzzing found and that were mended: each file of `data/` is tried
//! as the fuzz target does that its name starts with.

use std::{fs, path::Path};

use afferent_tests_hostile::{attempt, call, reading, seeds::seed};

#[test]
fn mended_findings_stay_mended() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut tried = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        println!("{name}");
        match name.split_once('-').unwrap_or_default().0 {
            "program" => drop(reading::read(&bytes)),
            "bundled" => drop(reading::read_bundled(&bytes)),
            "external_data" => {
                let _ = attempt::program_with_data(&seed("external_constants"), &bytes, 1);
            }
            "named_data" => reading::look_up(&bytes),
            "load_and_run" => drop(attempt::program(&bytes, bytes.len() as u64)),
            "delegates" => {
                let tally = attempt::delegated(&bytes, bytes.len() as u64);
                assert!(tally.refused > 0 && tally.ran == 0, "{name}: {tally:?}");
            }
            "operators" => drop(call::call(&bytes)),
            other => panic!("{name}: no target {other:?}"),
        }
        tried += 1;
    }
    assert!(tried > 0, "the findings are here");
}
