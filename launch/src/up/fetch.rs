//! Copies programs of models that a machine lacks into its cache.

use std::{collections::HashMap, fs::File, io, path::PathBuf};

use afferent_spec::CheckedGraph;
use anyhow::Context;

use super::remote::{Login, Script};
use crate::{
    log,
    models::{Program, packages},
};

/// Asks `host` for the SHA-256 of the programs that it lacks, and copies them.
pub(super) fn programs(
    graph: &CheckedGraph,
    login: &Login<'_>,
    host: &str,
    script: &Script,
) -> anyhow::Result<()> {
    let missing = login.feed(host, &script.missing(), |_| Ok(()))?;
    if missing.is_empty() {
        return Ok(());
    }
    let known = known(graph)?;
    for hash in missing.lines().map(str::trim) {
        let Some(path) = known.get(hash) else {
            log::warning(format_args!("{host} lacks the program {hash}, and so does this machine"));
            continue;
        };
        let name = path.display();
        let mut file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        login.feed(host, &script.store(hash), |pipe| io::copy(&mut file, pipe).map(drop))?;
        log::progress(format_args!("copied {name} to {host}"));
    }
    Ok(())
}

/// Programs of all nodes that this machine has, by their SHA-256.
fn known(graph: &CheckedGraph) -> anyhow::Result<HashMap<String, PathBuf>> {
    let mut known = HashMap::new();
    for node in &graph.nodes {
        for package in packages(node)? {
            let variants = package.manifest.all_variants();
            let programs = variants.map(|variant| Program::new(node, &package, variant));
            known.extend(programs.filter_map(|program| Some((program.sha256?, program.found?))));
        }
    }
    Ok(known)
}
