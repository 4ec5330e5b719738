//! Units of systemd, as `systemd-analyze verify` reads them.
#![cfg(target_os = "linux")]

use std::{fs, path::Path, process::Command};

#[test]
fn the_unit_has_no_faults() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("kits/systemd/afferent@.service");
    let text = fs::read_to_string(unit).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let verify = |text: &str| {
        let path = folder.path().join("afferent@.service");
        fs::write(&path, text.replace("/usr/bin/afferent", env!("CARGO_BIN_EXE_afferent")))
            .unwrap();
        let ended = Command::new("systemd-analyze").arg("verify").arg(path).output().ok()?;
        Some(String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap())
    };
    let Some(faults) = verify(&text) else {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    };
    // Those of other units of this machine are not ours.
    let own = |faults: &str| {
        let own = faults.lines().filter(|line| line.contains("afferent@"));
        own.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(own(&faults), [] as [&str; 0]);
    let wrong = verify(&text.replace("RestartSec=1", "RestartSecs=1")).unwrap();
    assert!(own(&wrong).iter().any(|line| line.contains("RestartSecs")), "{wrong}");
}
