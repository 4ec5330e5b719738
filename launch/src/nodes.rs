//! `afferent nodes`: lists the catalog, or prints the contract of one node.

use std::process::ExitCode;

use afferent_graph::{Choice, NodeDef, ParamValue, ParamValues, PortKind, PortSpec, Weight};
use anyhow::{Context, bail};
use clap::Args;

use crate::{App, table::aligned};

#[derive(Args)]
pub(crate) struct NodesArgs {
    /// Show the contract of this node: ports, parameters, latency
    name: Option<String>,
    /// Set a parameter, for a node whose ports depend on its parameters; may be given several times
    #[arg(long, value_name = "PARAM=VALUE", requires = "name")]
    set: Vec<String>,
}

pub(crate) fn nodes(app: &App, args: &NodesArgs) -> anyhow::Result<ExitCode> {
    let all = || app.catalog().nodes().iter();
    match &args.name {
        None => {
            let width = all().map(|def| def.name.len()).max().unwrap_or(0);
            for def in all() {
                crate::print(&format!("{:width$}  {}\n", def.name, def.summary))?;
            }
        }
        Some(name) => match app.catalog().node(name) {
            Some(def) => crate::print(&contract(&specialized(app, def, &args.set)?))?,
            None => bail!("there is no node {name:?}; `afferent nodes` lists them"),
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Contract of `def` with these parameters.
fn specialized(app: &App, def: &NodeDef, set: &[String]) -> anyhow::Result<NodeDef> {
    let mut params = ParamValues::new();
    for setting in set {
        let (name, value) = setting
            .split_once('=')
            .with_context(|| format!("--set {setting:?}: write PARAM=VALUE"))?;
        let Some(param) = def.params.iter().find(|param| *param.name == *name) else {
            bail!("node {} has no parameter {name:?}", def.name);
        };
        let value = param.accept(&ParamValue::Text(value.to_owned()));
        params.insert(name.to_owned(), value.with_context(|| format!("--set {name}"))?);
    }
    Ok(def.factory().specialize(&params, &app.open_cx())?.unwrap_or_else(|| def.clone()))
}

fn contract(def: &NodeDef) -> String {
    let mut text = format!("{}: {}\n", def.name, def.summary);
    let runs = match def.weight {
        Weight::Light if !def.is_source() => "on the thread of the upstream node",
        Weight::Light | Weight::Heavy => "on a thread of its own",
    };
    text += &format!("\nruns      {runs}\nlatency   {}\n", def.latency);
    text += &table("inputs", def.inputs.iter().map(port_row).collect());
    text += &table("outputs", def.outputs.iter().map(port_row).collect());
    let params = def.params.iter().map(|param| {
        let default = match (&param.default, param.optional) {
            (Some(default), _) => format!("default {default}"),
            (None, true) => "optional".to_owned(),
            (None, false) => "required".to_owned(),
        };
        let unit = if param.unit.is_empty() { String::new() } else { format!(", {}", param.unit) };
        let range = param.range_text().map_or_else(String::new, |range| format!(", {range}"));
        let kind = format!("{}{unit}{range}", param.kind);
        [param.name.to_string(), default, kind, one_line(&param.help)]
    });
    text += &table("parameters", params.collect());
    text
}

fn port_row(port: &PortSpec) -> [String; 4] {
    let under_load = port.on_full.word();
    let note = match (port.kind, port.optional, port.many) {
        (PortKind::Output, ..) => format!("when full: {under_load}"),
        (_, _, true) => "several streams".to_owned(),
        (_, true, _) => "optional".to_owned(),
        _ => String::new(),
    };
    [port.name.to_string(), port.ty.to_string(), note, one_line(&port.help)]
}

/// Joins the lines of a text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Table with a title.
fn table(title: &str, rows: Vec<[String; 4]>) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{title}\n{}", aligned(&rows)) }
}
