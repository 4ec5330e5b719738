//! Compilers for the target of an archive.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{cargo, is_installed, program, root, run};

/// Debian's compiler, whose libraries for other targets are packages.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A target that can be compiled for.
pub(super) struct Target {
    triple: String,
    /// Prefix of the tools of a cross compiler, such as `aarch64-linux-gnu-`.
    prefix: String,
    /// Compiler; `None` for that of rustup.
    rustc: Option<&'static str>,
}

/// Triple of this machine.
pub(super) fn host() -> Result<String> {
    let output = program("rustc", "-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}

impl Target {
    /// Finds the standard library and the tools for `triple`.
    pub(super) fn find(triple: &str) -> Result<Self> {
        let is_host = host()? == triple;
        let prefix = match triple.split('-').collect::<Vec<_>>().as_slice() {
            _ if is_host => String::new(),
            [processor, _, "linux", system] => format!("{processor}-linux-{system}-"),
            _ => bail!("{triple}: archives are for Linux"),
        };
        let library = program("rustc", "--print target-libdir --target").arg(triple).output()?;
        let library = PathBuf::from(String::from_utf8_lossy(&library.stdout).trim());
        let debian = Path::new("/usr/lib/rustlib").join(triple).join("lib");
        let rustc = if library.is_dir() {
            None
        } else if debian.is_dir() && Path::new(DEBIAN_RUSTC).exists() {
            Some(DEBIAN_RUSTC)
        } else {
            bail!("there is no standard library for {triple}: `rustup target add {triple}`")
        };
        for tool in [if is_host { "cc" } else { "gcc" }, "strip"] {
            let tool = format!("{prefix}{tool}");
            ensure!(is_installed(&tool), "{tool} is not installed");
        }
        Ok(Self { triple: triple.to_owned(), prefix, rustc })
    }

    /// Program that removes symbols.
    pub(super) fn strip(&self) -> String {
        format!("{}strip", self.prefix)
    }

    /// Builds `afferent`; returns the path of the program.
    pub(super) fn build(&self, features: &str, profile: &str) -> Result<PathBuf> {
        let Self { triple, prefix, rustc } = self;
        let mut build = cargo("build --locked -p afferent --bin afferent --target");
        build.args([triple, "--profile", profile, "--features", features]);
        build.env_remove("RUSTFLAGS").env_remove("CARGO_BUILD_RUSTFLAGS");
        if let Some(rustc) = rustc {
            build.env("RUSTC", rustc);
        }
        let linker = format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace('-', "_"));
        if !prefix.is_empty() && std::env::var_os(&linker).is_none() {
            build.env(linker, format!("{prefix}gcc"));
        }
        run(&mut build)?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| root().join("target"));
        let folder = if profile == "dev" { "debug" } else { profile };
        Ok(target.join(triple).join(folder).join("afferent"))
    }
}
