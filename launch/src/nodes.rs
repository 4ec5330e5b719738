//! `afferent nodes`: the catalogue.

use std::process::ExitCode;

use afferent_graph::{NodeDef, OnFull, Port, PortKind, Weight};
use anyhow::bail;
use clap::Args;

use crate::{catalogue, table::aligned};

#[derive(Args)]
pub(crate) struct NodesArgs {
    /// Show the contract of this node: ports, parameters, latency
    name: Option<String>,
}

pub(crate) fn nodes(args: &NodesArgs) -> anyhow::Result<ExitCode> {
    let nodes = catalogue::nodes();
    let all = || nodes.iter().copied().flatten();
    match &args.name {
        None => {
            let width = all().map(|def| def.name.len()).max().unwrap_or(0);
            for def in all() {
                crate::print(&format!("{:width$}  {}\n", def.name, def.summary))?;
            }
        }
        Some(name) => match all().find(|def| def.name == name) {
            Some(def) => crate::print(&contract(def))?,
            None => bail!("there is no node {name:?}; `afferent nodes` lists them"),
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn contract(def: &NodeDef) -> String {
    let mut text = format!("{}: {}\n", def.name, def.summary);
    let runs = match def.weight {
        Weight::Light if !def.is_source() => "on the thread of the node before it",
        Weight::Light | Weight::Heavy => "on a thread of its own",
    };
    text += &format!("\nruns      {runs}\nlatency   {}\n", def.latency);
    text += &table("inputs", def.inputs().map(port_row).collect());
    text += &table("outputs", def.outputs().map(port_row).collect());
    let params = def.params.iter().map(|param| {
        let default = match (param.default, param.optional) {
            (Some(default), _) => format!("default {default}"),
            (None, true) => "optional".to_owned(),
            (None, false) => "required".to_owned(),
        };
        let unit = if param.unit.is_empty() { String::new() } else { format!(", {}", param.unit) };
        let range = param.range_text().map_or_else(String::new, |range| format!(", {range}"));
        let kind = format!("{}{unit}{range}", param.kind);
        [param.name.to_owned(), default, kind, one_line(param.help)]
    });
    text += &table("parameters", params.collect());
    text
}

fn port_row(port: &Port) -> [String; 4] {
    let under_load = match port.on_full {
        OnFull::Block => "block",
        OnFull::DropOldest => "drop_oldest",
        OnFull::DropNewest => "drop_newest",
        OnFull::Latest => "latest",
    };
    let note = match (port.kind, port.optional, port.many) {
        (PortKind::Output, ..) => format!("when full: {under_load}"),
        (_, _, true) => "several streams".to_owned(),
        (_, true, _) => "optional".to_owned(),
        _ => String::new(),
    };
    [port.name.to_owned(), port.ty.to_owned(), note, one_line(port.help)]
}

/// A text of several lines as one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Rows under a title.
fn table(title: &str, rows: Vec<[String; 4]>) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{title}\n{}", aligned(&rows)) }
}
