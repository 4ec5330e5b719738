//! `afferent up`: starts a graph on all of its machines, over ssh.
//!
//! | module | holds |
//! |---|---|
//! | `bundle` | files that a machine needs, as a tar archive |
//! | `fetch` | copies programs of models to a machine |
//! | `remote` | commands on a machine |
//! | `machine` | a running machine: its output and its end |

mod bundle;
mod fetch;
mod machine;
mod remote;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use afferent_spec::{CheckedGraph, LoadOptions, Machine, PlacementOptions};
use anyhow::{Context, ensure};
use bundle::Bundle;
use clap::Args;
use machine::{Ended, Running};
use remote::{Login, Script};

use crate::{App, graph_file::GraphFile, log, placement::check_machine};

#[derive(Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    file: GraphFile,
    /// Machines (YAML): `machines: {robot: {address: quic/10.0.0.2:7450, ssh: me@10.0.0.2}}`. One
    /// without `ssh` is started here
    #[arg(long, value_name = "FILE")]
    machines: PathBuf,
    /// Address under which a machine is reached, `robot=quic/10.0.0.2:7450`; may be given several
    /// times
    #[arg(long, value_name = "NAME=ADDRESS")]
    at: Vec<String>,
    /// Folder of certificates and keys, from `afferent keys`; each machine gets its own
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Start only this machine; may be given several times
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// Program that runs commands on other machines, with the arguments of ssh
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    ssh: PathBuf,
    /// Option of ssh, such as ConnectTimeout=5; may be given several times
    #[arg(long, value_name = "OPTION")]
    ssh_option: Vec<String>,
    /// Copy programs of models that a machine lacks into its cache
    #[arg(long)]
    fetch: bool,
    /// Options of `afferent run` on every machine
    #[arg(last = true, value_name = "OPTIONS")]
    run: Vec<String>,
}

pub(crate) fn up(app: App, args: &UpArgs) -> anyhow::Result<ExitCode> {
    let app = args.file.configure(app);
    let (at, machines) = (args.at.clone(), Some(args.machines.clone()));
    let placement = PlacementOptions { at, machines, ..PlacementOptions::default() };
    let options = LoadOptions { placement, wiring_only: true, ..LoadOptions::default() };
    let Some(checked) = args.file.load(&app, options)? else { return Ok(ExitCode::FAILURE) };
    let machines = chosen(args, &checked.graph)?;
    let login = Login { program: &args.ssh, options: &args.ssh_option };
    let mut scripts = Vec::new();
    for machine in &machines {
        let number = checked.graph.machines.iter().position(|other| other.name == machine.name);
        let bundle = Bundle::new(&args.file.graph, &args.machines, &checked, number.unwrap_or(0))?;
        let script = script(args, &checked.graph.name, machine, &bundle)?;
        if let Some(host) = &machine.remote.ssh {
            let name = &machine.name;
            let keys = args.keys.as_deref().map(|folder| (folder, name.as_str()));
            login
                .feed(host, &script.unpack(), |pipe| bundle.write(keys, pipe))
                .with_context(|| format!("machine {name}: cannot copy the graph to {host}"))?;
            if args.fetch {
                fetch::programs(&checked.graph, &login, host, &script)
                    .with_context(|| format!("machine {name}: cannot copy programs to {host}"))?;
            }
        }
        scripts.push(script);
    }
    run(&machines, &scripts, &login)
}

/// Machines to start.
fn chosen<'g>(args: &UpArgs, graph: &'g CheckedGraph) -> anyhow::Result<Vec<&'g Machine>> {
    let path = args.file.graph.display();
    ensure!(!graph.machines.is_empty(), "{path} has no machines: `afferent run {path}` starts it");
    for name in &args.machine {
        check_machine(graph, &args.file.graph, ("--machine", name))?;
    }
    let is_chosen =
        |machine: &&Machine| args.machine.is_empty() || args.machine.contains(&machine.name);
    Ok(graph.machines.iter().filter(is_chosen).collect())
}

/// Commands of a machine.
fn script(
    args: &UpArgs,
    graph: &str,
    machine: &Machine,
    bundle: &Bundle,
) -> anyhow::Result<Script> {
    let remote = &machine.remote;
    let is_here = remote.ssh.is_none();
    let program = match &remote.program {
        Some(program) => program.clone(),
        None if is_here => {
            let program = std::env::current_exe().context("the path of this program is unknown")?;
            program.to_str().context("the path of this program is not UTF-8")?.to_owned()
        }
        None => "afferent".to_owned(),
    };
    let dir = remote.dir.clone().unwrap_or_else(|| format!("afferent/{graph}"));
    let mut script = if is_here {
        Script::here(program, &args.file.graph, &args.machines, args.keys.as_deref())?
    } else {
        Script::remote(program, dir, bundle, args.keys.is_some())?
    };
    let mut add = |option: &str, value: &str| {
        script.options.extend([option.to_owned(), value.to_owned()]);
    };
    add("--machine", &machine.name);
    args.at.iter().for_each(|at| add("--at", at));
    args.file.set.iter().for_each(|set| add("--set", set));
    args.file.profile.iter().for_each(|profile| add("--profile", profile));
    script.run_options.clone_from(&args.run);
    Ok(script)
}

/// Starts all machines, prints their lines, and waits for their ends.
fn run(machines: &[&Machine], scripts: &[Script], login: &Login<'_>) -> anyhow::Result<ExitCode> {
    let (ends, ended) = mpsc::channel();
    let mut running = Vec::new();
    for (machine, script) in machines.iter().zip(scripts) {
        let command = login.command(machine.remote.ssh.as_deref(), &script.run());
        let started = Running::start(&machine.name, command, ends.clone())
            .with_context(|| format!("machine {} cannot be started", machine.name))?;
        running.push(started);
    }
    drop(ends);
    let running = Arc::new(running);
    stop_on_ctrl_c(running.clone())?;
    let mut code = ExitCode::SUCCESS;
    for Ended { machine, status, last } in ended {
        if status.success() {
            log::progress(format_args!("machine {machine} has ended"));
            continue;
        }
        code = ExitCode::FAILURE;
        let host = machines.iter().find(|known| known.name == machine);
        let host = host.and_then(|machine| machine.remote.ssh.as_deref());
        let reason = match (status.code(), host) {
            (Some(255), Some(host)) => {
                format!("lost its connection to {host} (ssh ended with 255)")
            }
            _ => format!("failed: {status}"),
        };
        let last = last.iter().map(|line| format!("\n  {line}")).collect::<String>();
        log::error(format_args!("machine {machine} {reason}; its last lines:{last}"));
    }
    Ok(code)
}

/// The first Ctrl-C stops all machines; the second ends their connections.
fn stop_on_ctrl_c(running: Arc<Vec<Running>>) -> anyhow::Result<()> {
    let pressed = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if pressed.swap(true, Ordering::Relaxed) {
            running.iter().for_each(Running::kill);
            std::process::exit(130);
        }
        running.iter().for_each(Running::stop);
        log::progress("stopping all machines; press Ctrl-C again to end at once");
    })
    .context("cannot listen to Ctrl-C")
}
