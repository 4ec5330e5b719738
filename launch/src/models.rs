//! `afferent models`: programs of the models of a graph.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use afferent_graph::{ParamKind, ParamValue};
use afferent_package::{ModelCache, ModelPackage, Variant};
use afferent_spec::{CheckedNode, LoadOptions};
use anyhow::Context;
use clap::Args;

use crate::{App, graph_file::GraphFile, placement::PlacementArgs, table::aligned};

#[derive(Args)]
pub(crate) struct ModelsArgs {
    #[command(flatten)]
    file: GraphFile,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Print only the SHA-256 of programs that this machine lacks, one a line
    #[arg(long)]
    missing: bool,
}

/// Program of a model that a node loads.
pub(crate) struct Program {
    node: String,
    /// Path in the package.
    path: PathBuf,
    bytes: Option<u64>,
    pub(crate) sha256: Option<String>,
    /// Path in the package or in the cache; `None` if it is in neither.
    pub(crate) found: Option<PathBuf>,
}

pub(crate) fn models(app: App, args: &ModelsArgs) -> anyhow::Result<ExitCode> {
    let app = args.file.configure(app);
    let options = LoadOptions { wiring_only: true, ..args.placement.options(false) };
    let Some(checked) = args.file.load(&app, options)? else { return Ok(ExitCode::FAILURE) };
    let graph = &checked.graph;
    let mut programs = Vec::new();
    let is_here = |index| graph.machine.is_none_or(|machine| machine == graph.machine_of(index));
    for (_, node) in graph.nodes.iter().enumerate().filter(|(index, _)| is_here(*index)) {
        for package in packages(node)? {
            // Without a backend for any variant, the run says so.
            let variants = package.available_variants(app.models()).into_iter();
            programs.extend(variants.map(|variant| Program::new(node, &package, variant)));
        }
    }
    if args.missing {
        let missing = programs.iter().filter(|program| program.found.is_none());
        let hashes: BTreeSet<_> = missing.filter_map(|program| program.sha256.as_deref()).collect();
        crate::print(&hashes.iter().map(|hash| format!("{hash}\n")).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["node", "program", "bytes", "SHA-256", "is in"].map(str::to_owned)];
    rows.extend(programs.iter().map(Program::row));
    crate::print(&aligned(&rows))?;
    if let Some(cache) = ModelCache::of_user() {
        crate::print(&format!("\nThe cache is {}\n", cache.folder().display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Model packages that parameters of `node` name.
pub(crate) fn packages(node: &CheckedNode) -> anyhow::Result<Vec<ModelPackage>> {
    let paths = read_paths(node).filter(|path| is_package(path));
    let opened = paths.map(|path| {
        ModelPackage::open(path).with_context(|| format!("the model of node {}", node.name))
    });
    opened.collect()
}

/// Paths that parameters of `node` name and that it reads.
pub(crate) fn read_paths(node: &CheckedNode) -> impl Iterator<Item = &PathBuf> {
    let params = node.def.params.iter().filter(|param| param.kind == ParamKind::Path);
    params.filter_map(|param| match node.params.get(&*param.name) {
        Some(ParamValue::Path(path)) => Some(path),
        _ => None,
    })
}

fn is_package(path: &Path) -> bool {
    let is_program = || path.extension().is_some_and(|extension| extension == "pte");
    path.join("model.yaml").is_file() || path.is_file() && is_program()
}

impl Program {
    pub(crate) fn new(node: &CheckedNode, package: &ModelPackage, variant: &Variant) -> Self {
        let found = package.program(variant).ok().filter(|path| path.is_file());
        let size = found.as_ref().and_then(|path| Some(fs::metadata(path).ok()?.len()));
        Self {
            node: node.name.clone(),
            path: package.folder().join(&variant.file),
            bytes: variant.bytes.or(size),
            sha256: variant.sha256.as_ref().map(|hash| hash.to_lowercase()),
            found,
        }
    }

    fn row(&self) -> [String; 5] {
        let location = match &self.found {
            Some(found) if *found == self.path => "package",
            Some(_) => "cache",
            None => "neither package nor cache",
        };
        [
            self.node.clone(),
            self.path.display().to_string(),
            self.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            // A bare program has no manifest.
            self.sha256.clone().unwrap_or_else(|| "-".to_owned()),
            location.to_owned(),
        ]
    }
}
