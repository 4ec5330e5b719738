//! Inputs of the kinds for which fuzzing found a fault. The name of each file in `data/` starts
//! with its fuzz target.

use std::{fs, path::Path};

use afferent_tests_hostile::{call, execute, invariants, seeds::seed, wire};

#[test]
fn fixed_findings_stay_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        println!("{name}");
        match name.split_once('-').unwrap_or_default().0 {
            "program" => drop(invariants::check_file(&bytes)),
            "bundled" => drop(invariants::check_bundled(&bytes)),
            "external_data" => {
                let _ = execute::program_with_data(&seed("external_constants"), &bytes, 1);
            }
            "named_data" => invariants::check_named_data(&bytes),
            "load_and_run" => drop(execute::program(&bytes, bytes.len() as u64)),
            "delegates" => {
                let tally = execute::program_with_xnnpack(&bytes, bytes.len() as u64);
                assert!(tally.rejected > 0 && tally.completed == 0, "{name}: {tally:?}");
            }
            #[cfg(feature = "vulkan")]
            "vulkan" => drop(execute::program_with_vulkan(&bytes, bytes.len() as u64)),
            #[cfg(not(feature = "vulkan"))]
            "vulkan" => println!("skipped: it needs the feature `vulkan`"),
            "operators" => drop(call::call(&bytes)),
            "wire" => drop(wire::decode(&bytes)),
            other => panic!("{name}: `{other}` is not a fuzz target"),
        }
        count += 1;
    }
    assert!(count > 0, "`data` contains the findings");
}
