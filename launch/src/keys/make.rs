//! The command: which certificates are made, and what the user does with them.

use std::process::ExitCode;

use afferent_spec::{CheckedGraph, LoadOptions, Machine};
use anyhow::{Context, ensure};

use super::{
    KeysArgs,
    authority::{Authority, NAME},
    certificate::{Certificate, Time, names},
    files::{Pair, create},
};
use crate::{App, log, placement::check_machine, table::aligned};

pub(super) fn make(app: App, args: &KeysArgs) -> anyhow::Result<ExitCode> {
    let app = args.file.configure(app);
    let placement = args.addresses.placement();
    let options = LoadOptions { placement, wiring_only: true, ..LoadOptions::default() };
    let Some(checked) = args.file.load(&app, options)? else { return Ok(ExitCode::FAILURE) };
    let machines = chosen(args, &checked.graph)?;
    let authority = Authority::open(&args.dir, &checked.graph.name, args.days)?;
    // Faults of existing files are found before anything is written.
    let known: Vec<_> = machines
        .iter()
        .map(|machine| existing(args, &authority, machine))
        .collect::<anyhow::Result<_>>()?;
    create(&args.dir)?;
    let is_new = authority.is_new();
    authority.write(&args.dir)?;
    let pair = Pair::new(&args.dir, NAME);
    let (path, key, end) =
        (pair.certificate.display(), pair.key.display(), authority.certificate.end.date());
    let word = if is_new { "wrote" } else { "kept" };
    log::progress(format_args!("{word} {path} and {key}: the authority, valid until {end}"));
    let mut rows = vec![["machine", "copy to it", "valid for", "until"].map(str::to_owned)];
    for (machine, known) in machines.iter().zip(known) {
        let pair = Pair::new(&args.dir, &machine.name);
        let word = if known.is_some() { "kept" } else { "wrote" };
        let certificate = match known {
            Some(certificate) => certificate,
            None => authority.issue(machine, args.days, &pair)?,
        };
        let (path, key) = (pair.certificate.display(), pair.key.display());
        log::progress(format_args!("{word} {path} and {key}"));
        warn(machine, &certificate);
        let name = &machine.name;
        let copied = format!("{NAME}.pem, {name}.pem, {name}.key");
        rows.push([name.clone(), copied, certificate.names.join(", "), certificate.end.date()]);
    }
    let (graph, dir) = (args.file.graph.display(), args.dir.display());
    let text = format!(
        "{}\n{key} stays here: its owner can admit machines to the graph.\nNext, on each machine: \
         afferent run {graph} --machine NAME --keys {dir}\n",
        aligned(&rows)
    );
    crate::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Machines whose certificates are looked after.
fn chosen<'g>(args: &KeysArgs, graph: &'g CheckedGraph) -> anyhow::Result<Vec<&'g Machine>> {
    let path = args.file.graph.display();
    ensure!(
        !graph.machines.is_empty(),
        "{path} has no machines: name them, such as `machines: {{robot: {{listen: \
         quic/0.0.0.0:7450}}, base: {{}}}}`"
    );
    for (option, name) in named(args) {
        check_machine(graph, &args.file.graph, (option, name))?;
    }
    let is_chosen = |machine: &&Machine| {
        args.machine.is_empty() || named(args).any(|(_, name)| *name == machine.name)
    };
    let machines: Vec<_> = graph.machines.iter().filter(is_chosen).collect();
    ensure!(
        !machines.iter().any(|machine| machine.name == NAME),
        "machine \"{NAME}\" has the name of the files of the authority: rename it"
    );
    Ok(machines)
}

/// Machines that options name.
fn named(args: &KeysArgs) -> impl Iterator<Item = (&'static str, &String)> {
    let machines = args.machine.iter().map(|name| ("--machine", name));
    machines.chain(args.renew.iter().map(|name| ("--renew", name)))
}

/// Certificate of `machine` that is kept; `None` if one is made.
fn existing(
    args: &KeysArgs,
    authority: &Authority,
    machine: &Machine,
) -> anyhow::Result<Option<Certificate>> {
    let name = &machine.name;
    if args.renew.contains(name) {
        return Ok(None);
    }
    let pair = Pair::new(&args.dir, name);
    let remedy = format!("--renew {name} makes both again");
    if !pair.exists(&remedy)? {
        return Ok(None);
    }
    Ok(Some(authority.read(name, &pair).context(remedy)?))
}

/// Warns of a certificate that other machines will refuse.
fn warn(machine: &Machine, certificate: &Certificate) {
    let (name, now, end) = (&machine.name, Time::now(), certificate.end);
    let names = names(machine);
    let missing: Vec<_> = names.iter().filter(|name| !certificate.names.contains(name)).collect();
    if end <= now {
        let end = end.date();
        log::warning(format_args!("{name}.pem expired on {end}: --renew {name} makes a new one"));
    } else if let [host, ..] = missing.as_slice() {
        log::warning(format_args!(
            "{name}.pem is not valid for {host}: --renew {name} makes a new one"
        ));
    } else if names.len() == 1 && machine.listen.is_some() {
        log::warning(format_args!(
            "{name}.pem is valid only for the host name {name}: give the address of the machine \
             with --at {name}=ADDRESS, and --renew {name}"
        ));
    }
}
