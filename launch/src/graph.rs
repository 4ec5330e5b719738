//! `afferent check` and `afferent graph`.

use std::{
    io::{IsTerminal, stderr},
    path::PathBuf,
    process::ExitCode,
};

use afferent_engine::{Checked, DrawFormat, LoadOptions, draw as draw_graph, load_and_check};
use clap::Args;

use crate::catalogue::{NODES, services};

/// A graph file and what to change in it.
#[derive(Args)]
pub(crate) struct GraphFile {
    /// Graph file (YAML)
    pub(crate) graph: PathBuf,
    /// Apply this profile of the graph file
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Replace a setting; may be given several times
    #[arg(long, value_name = "NODE.PARAM=VALUE")]
    pub(crate) set: Vec<String>,
}

impl GraphFile {
    /// Reads and checks the graph. Shows what was found; `None` when it cannot run.
    pub(crate) fn load(&self) -> Option<Checked> {
        let options = LoadOptions { profile: self.profile.clone(), set: self.set.clone() };
        let colour = stderr().is_terminal();
        match load_and_check(&self.graph, &options, NODES, &services()) {
            Ok(checked) => {
                if !checked.warnings.is_empty() {
                    eprint!("{}", checked.warnings.render(colour));
                }
                Some(checked)
            }
            Err(faults) => {
                eprint!("{}", faults.render(colour));
                None
            }
        }
    }
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    file: GraphFile,
}

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let Some(checked) = args.file.load() else { return Ok(ExitCode::FAILURE) };
    let (nodes, edges) = (checked.graph.nodes.len(), checked.graph.edges.len());
    crate::print(&format!(
        "{}: {nodes} nodes and {edges} edges, ready to run\n",
        checked.graph.name
    ))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    file: GraphFile,
    /// mermaid, dot or svg
    #[arg(long, default_value = "mermaid")]
    format: String,
}

pub(crate) fn draw(args: &GraphArgs) -> anyhow::Result<ExitCode> {
    let format: DrawFormat = args.format.parse()?;
    let Some(checked) = args.file.load() else { return Ok(ExitCode::FAILURE) };
    crate::print(&draw_graph(&checked.graph, format))?;
    Ok(ExitCode::SUCCESS)
}
