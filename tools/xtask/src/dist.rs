//! Release archives: the program with the shipped graphs, their models and the units of systemd.
//!
//! The archive has the layout of the repository, so that paths within graphs stay valid:
//!
//! ```text
//! afferent-0.1.0-aarch64-unknown-linux-gnu/
//!   bin/afferent
//!   pipelines/       graphs, models, sound files
//!   launch/kits/     deployments, units of systemd
//!   docs/  LICENSE  README.md
//! ```

mod target;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use target::Target;

use crate::command::{capture, is_installed, program, root, run};

/// Files of the repository that an archive holds: arguments of `git ls-files`.
const FILES: &[&str] = &["pipelines", "launch/kits", "docs", "LICENSE", "README.md"];
/// 64-bit ARM: boards, glasses and robots.
const ARM: &str = "aarch64-unknown-linux-gnu";

/// Options of `cargo xtask dist`.
struct Options {
    target: String,
    features: String,
    profile: String,
}

/// Builds the archive that `args` ask for.
pub(crate) fn make(args: &[&str]) -> Result<()> {
    let mut options =
        Options { target: target::host()?, features: String::new(), profile: "release".to_owned() };
    for pair in args.chunks(2) {
        let (option, value) = match pair {
            ["--target", value] => (&mut options.target, value),
            ["--features", value] => (&mut options.features, value),
            ["--profile", value] => (&mut options.profile, value),
            [option, ..] => bail!(
                "{option}: the options are --target TRIPLE, --features LIST and --profile NAME"
            ),
            [] => continue,
        };
        *option = (*value).to_owned();
    }
    let target = Target::find(&options.target)?;
    let archive = archive(&options, &target)?;
    let bytes = fs::metadata(&archive)?.len();
    println!("wrote {}, {:.1} MB", archive.display(), bytes as f64 / 1e6);
    Ok(())
}

/// Builds the archive for 64-bit ARM and runs its program under QEMU. The profile is that of the
/// step `arm`, which has compiled half of it.
pub(crate) fn check() -> Result<()> {
    for tool in ["qemu-aarch64", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-strip"] {
        if !is_installed(tool) {
            println!("skipped: {tool} is not installed");
            return Ok(());
        }
    }
    let target = match Target::find(ARM) {
        Ok(target) => target,
        Err(reason) => {
            println!("skipped: {reason:#}");
            return Ok(());
        }
    };
    let profile = "dev".to_owned();
    let options = Options { target: ARM.to_owned(), features: String::new(), profile };
    let archive = archive(&options, &target)?;
    let folder = tempfile::tempdir()?;
    run(program("tar", "-xzf").arg(&archive).arg("-C").arg(folder.path()))?;
    let folder = folder.path().join(name(ARM));
    let afferent = |args: &str| {
        let mut command = Command::new("qemu-aarch64");
        command.arg("bin/afferent").args(args.split_whitespace()).current_dir(&folder);
        capture(&mut command)
    };
    let expect = |args: &str, expected: &str| -> Result<()> {
        println!("$ qemu-aarch64 bin/afferent {args}");
        let (success, text) = afferent(args)?;
        ensure!(success, "`afferent {args}` fails");
        ensure!(text.contains(expected), "`afferent {args}` does not print {expected:?}");
        Ok(())
    };
    expect("--version", &format!("afferent {}", env!("CARGO_PKG_VERSION")))?;
    expect("check launch/kits/one_board.yaml", "ready to run")?;
    expect("check pipelines/voice_agent.yaml", "ready to run")?;
    // The wake words of the sound file.
    expect("run pipelines/wake_word.yaml --virtual", "\"hey afferent\"")
}

fn name(target: &str) -> String {
    format!("afferent-{}-{target}", env!("CARGO_PKG_VERSION"))
}

/// Builds the program and packs the archive. Returns its path.
fn archive(options: &Options, target: &Target) -> Result<PathBuf> {
    let binary = target.build(&options.features, &options.profile)?;
    let dist = root().join("target/dist");
    let name = name(&options.target);
    let folder = dist.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("bin"))?;
    let stripped = folder.join("bin/afferent");
    run(program(&target.strip(), "-o").arg(&stripped).arg(&binary))?;
    for file in files()? {
        let copy = folder.join(&file);
        fs::create_dir_all(copy.parent().context("a file in the repository")?)?;
        fs::copy(root().join(&file), copy).with_context(|| file.clone())?;
    }
    let archive = dist.join(format!("{name}.tar.gz"));
    pack(&dist, &name, &archive)?;
    fs::remove_dir_all(&folder)?;
    Ok(archive)
}

/// Committed files of an archive; those that are built or fetched are not part of it.
fn files() -> Result<Vec<String>> {
    let output = program("git", "ls-files -z --").args(FILES).output().context("cannot run git")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let files: Vec<_> =
        text.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
    ensure!(!files.is_empty(), "git lists no files: an archive is made in a clone");
    Ok(files)
}

/// Packs `folder` of `parent`. The same files give the same archive.
fn pack(parent: &Path, folder: &str, archive: &Path) -> Result<()> {
    let options = "--sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w -czf";
    run(program("tar", options).arg(archive).arg("-C").arg(parent).arg(folder))
}
