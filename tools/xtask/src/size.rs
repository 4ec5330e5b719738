//! Cost of a release build from scratch, and the size of what it makes.

use std::{fs, time::Instant};

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, is_installed, program, root, run};

/// Builds `afferent` in an empty target folder and prints CPU time, crates and sizes.
pub(crate) fn print() -> Result<()> {
    fs::create_dir_all(root().join("target"))?;
    let target = tempfile::tempdir_in(root().join("target"))?;
    let before = children_cpu_seconds()?;
    let start = Instant::now();
    let mut build = cargo("build --release --locked -p afferent");
    run(build.env("CARGO_TARGET_DIR", target.path()).env("CARGO_INCREMENTAL", "0"))?;
    let (wall, cpu) = (start.elapsed().as_secs_f64(), children_cpu_seconds()? - before);
    let tree = cargo("tree --locked -p afferent --edges normal,build --prefix none --no-dedupe")
        .output()
        .context("cannot run cargo tree")?;
    ensure!(tree.status.success(), "cargo tree failed");
    let tree = String::from_utf8_lossy(&tree.stdout);
    let crates: std::collections::BTreeSet<_> =
        tree.lines().filter_map(|line| line.split(" (").next()).collect();
    let binary = target.path().join("release/afferent");
    let size = |path| -> Result<f64> { Ok(fs::metadata(path)?.len() as f64 / 1e6) };
    println!("{:<40} {:>9.1}", "CPU time of the build, minutes", cpu / 60.0);
    println!("{:<40} {:>9.1}", "wall time of the build, minutes", wall / 60.0);
    println!("{:<40} {:>9}", "crates", crates.len());
    println!("{:<40} {:>9.1}", "binary, MB", size(&binary)?);
    if is_installed("strip") {
        let stripped = target.path().join("stripped");
        run(program("strip", "-o").arg(&stripped).arg(&binary))?;
        println!("{:<40} {:>9.1}", "binary without symbols, MB", size(&stripped)?);
    } else {
        println!("{:<40} {:>9}", "binary without symbols", "skipped: no `strip`");
    }
    Ok(())
}

/// CPU time of all ended child processes, in seconds (proc_pid_stat(5): cutime, cstime).
fn children_cpu_seconds() -> Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").context("needs /proc of Linux")?;
    let fields = stat.rsplit_once(')').context("/proc/self/stat")?.1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // Fields are counted from 1, and the third one is the first after the name.
    let ticks = |field: usize| -> Result<f64> {
        fields.get(field - 3).and_then(|text| text.parse().ok()).context("/proc/self/stat")
    };
    Ok((ticks(16)? + ticks(17)?) / TICKS_PER_SECOND)
}
