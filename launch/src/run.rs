//! `afferent run`: runs a graph and prints the report.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use afferent_engine::{ClockKind, Observer, Report, RunError, RunOptions, Session, Threads};
use afferent_graph::{ParamValue, SessionStart, read_duration};
use afferent_nodes_web::{Web, WebOptions};
use afferent_record::{RecordOptions, Recorder, TraceFile, Waterfall};
use afferent_spec::{Checked, CheckedGraph, CheckedNode, FileUse, Origin, counted};
use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::{
    App,
    foxglove::{self, Foxglove},
    graph_file::GraphFile,
    live::{self, Live},
    log,
    output::{Output, cannot_write},
    placement::PlacementArgs,
    processes::{NetArgs, Role, Running, Spread},
    serve::{ADDRESS, Figures, bind},
    tls::identity,
};

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    file: GraphFile,
    #[command(flatten)]
    placement: PlacementArgs,
    #[command(flatten)]
    net: NetArgs,
    /// Stop after this session time, such as 10s or 2min
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Time limit for draining after a stop; packets still in flight are then dropped and counted
    #[arg(long, value_name = "TIME", default_value = "2s")]
    drain: String,
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Record packets to this file (MCAP), for `afferent replay` and Foxglove
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record only this node or output; may be given several times
    #[arg(long, value_name = "NODE[.OUTPUT]", requires = "record")]
    record_only: Vec<String>,
    /// Largest size of the recording, in megabytes; the graph continues without it
    #[arg(long, value_name = "MB", requires = "record", value_parser = clap::value_parser!(u64).range(1..))]
    record_limit: Option<u64>,
    /// Write every call to this file, as a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw the latency waterfall of each turn to this file (SVG), for a graph with a `waterfall`
    #[arg(long, value_name = "FILE")]
    waterfall: Option<PathBuf>,
    /// Serve figures over HTTP during the run: /metrics for Prometheus, /stats for `afferent top`
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ADDRESS
    )]
    serve: Option<String>,
    /// Show the running graph on a page: figures, conversation, sound, images; also the address of the
    /// page of the nodes web_microphone, web_speaker and web_camera
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = live::ADDRESS
    )]
    live: Option<String>,
    /// Let pages of this origin connect to the live view, such as https://app.foxglove.dev; may be given
    /// several times
    #[arg(long, value_name = "ORIGIN", requires = "live")]
    allow_origin: Vec<String>,
    /// Serve the page over TLS, as browsers demand for the microphone and the camera of another machine;
    /// makes a certificate, unless --tls-cert gives one
    #[arg(long, requires = "live")]
    tls: bool,
    /// Certificate of the page, in PEM form
    #[arg(long, value_name = "FILE", requires_all = ["tls", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let nodes in Python take changes of their files while the graph runs
    #[arg(long)]
    watch: bool,
    /// Use a virtual clock: paced sources run as fast as the machine can, and the result is the
    /// same in every run
    #[arg(long = "virtual")]
    virtual_clock: bool,
    /// Run everything on one thread
    #[arg(long)]
    single_thread: bool,
    /// Fail if a budget of the graph is exceeded or was not measured, or if there is none
    #[arg(long)]
    enforce_budget: bool,
    /// Print events and the summary as JSON lines; logs with a path keep their format
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    /// Files of the certificate and of its key.
    fn tls_files(&self) -> Option<(&Path, &Path)> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }
}

pub(crate) fn run(app: App, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let mut role = Role::of_this_process()?;
    let duration = args.duration.as_deref().map(|text| read_duration(text, None)).transpose();
    let duration = duration.context("--duration")?;
    let drain = read_duration(&args.drain, None).context("--drain")?;
    let app = args.file.configure(app);
    // The virtual clock is that of one process.
    let loaded = args.file.load(&app, args.placement.options(args.virtual_clock))?;
    let Some(mut checked) = loaded else { return Ok(ExitCode::FAILURE) };
    measurable(args, &checked.graph)?;
    if args.json {
        print_json(&mut checked.graph);
    }
    if args.watch {
        watch(&mut checked.graph)?;
    }
    check_outputs(args, &checked)?;
    // Output that cannot be served or written is an error before the graph starts.
    // The main process serves and reports for all.
    let is_main = role.is_main();
    let listener = args.serve.as_deref().filter(|_| is_main).map(bind).transpose()?;
    let files = is_main.then(|| Files::open(args)).transpose()?;
    let clock = if args.virtual_clock { ClockKind::Virtual } else { ClockKind::Real };
    // Nodes and recording agree on it; on the virtual clock, every run writes the same file.
    let spread = match clock {
        ClockKind::Real => Spread::prepare(&checked.graph, &mut role, &args.net)?,
        ClockKind::Virtual => None,
    };
    let start = clock.session_start();
    let start = spread.as_ref().map_or(Ok(start), |spread| spread.session_start(start))?;
    let app = app.service(start);
    let web = Web::new(WebOptions {
        bind: args.live.as_deref().unwrap_or(live::ADDRESS).to_owned(),
        origins: args.allow_origin.clone(),
        identity: args.tls.then(|| identity(args.tls_files())).transpose()?,
    });
    let app = app.service(web.clone());
    let witnesses = Witnesses::new(args, &checked, start, &role)?;
    let options = RunOptions {
        threads: if args.single_thread { Threads::Single } else { Threads::Auto },
        clock,
        duration,
        drain,
        observers: witnesses.observers(),
        ..RunOptions::default()
    };
    // The page is served before the first packet, and an address that is taken is an error.
    let page = witnesses.live.as_ref().map(|live| web.show(live.clone())).transpose()?;
    if let Some(foxglove) = &witnesses.foxglove {
        web.show(foxglove.clone())?;
    }
    let running =
        Running::start(&app, &checked.graph, options, spread, start, witnesses.waterfall.as_ref())?;
    if let (Some(live), Some(page)) = (&witnesses.live, page) {
        live.read_figures_by(running.read_figures());
        log::progress(format_args!("live view at {page}/"));
        let socket = page.replacen("http", "ws", 1);
        log::progress(format_args!("for Foxglove: {socket}{}", foxglove::PATH));
    }
    let ran = drive(running, listener, is_main);
    let is_recorded = witnesses.finish();
    let (report, failed) = ran?;
    let Some(files) = files else {
        return Ok(if is_recorded { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    log_failures(&report);
    log_written(&checked);
    #[cfg(feature = "vulkan")]
    log_gpu(&app);
    show(args, &report, witnesses.waterfall.as_deref(), files)?;
    let failed = failed || !is_recorded;
    Ok(if failed { ExitCode::FAILURE } else { enforce_budget(args, &report) })
}

/// Fails if `graph` lacks a setting that the options need.
fn measurable(args: &RunArgs, graph: &CheckedGraph) -> anyhow::Result<()> {
    ensure!(
        args.waterfall.is_none() || graph.waterfall.len() > 1,
        "--waterfall: the graph does not say what to draw: name two outputs or more that work goes \
         through, such as `waterfall: [vad.events, llm.answer]`"
    );
    ensure!(
        !args.enforce_budget || !graph.budgets.is_empty(),
        "--enforce-budget: the graph has no budget: give it one, such as `budget: {{from: vad.events, \
         to: llm.answer, p95: 1s}}`"
    );
    Ok(())
}

/// Switches printed logs to JSON.
fn print_json(graph: &mut CheckedGraph) {
    let is_printed = |node: &&mut CheckedNode| {
        *node.def.name == *"event_log" && !node.params.contains_key("path")
    };
    for node in graph.nodes.iter_mut().filter(is_printed) {
        node.params.insert("format".to_owned(), ParamValue::Text("json".to_owned()));
    }
}

/// Lets the nodes in Python take changes of their files.
fn watch(graph: &mut CheckedGraph) -> anyhow::Result<()> {
    let mut nodes: Vec<_> =
        graph.nodes.iter_mut().filter(|node| *node.def.name == *"python").collect();
    ensure!(!nodes.is_empty(), "--watch: the graph has no node in Python");
    for node in &mut nodes {
        node.params.insert("reload".to_owned(), ParamValue::Bool(true));
    }
    Ok(())
}

/// Waits for the end of `session`; returns the report, and true if nodes failed.
fn drive(
    running: Running,
    listener: Option<TcpListener>,
    is_main: bool,
) -> anyhow::Result<(Report, bool)> {
    stop_on_ctrl_c(&running.session, is_main)?;
    for notice in running.session.notices() {
        log::note(notice);
    }
    let figures = listener.map(|listener| Figures::serve(listener, running.read_figures()));
    let figures = figures.transpose()?;
    if let Some(figures) = &figures {
        let address = figures.address();
        log::progress(format_args!("figures at http://{address}, for `afferent top {address}`"));
    }
    ended(running.wait())
}

/// Refuses output files that would overwrite a file of the graph or each other.
fn check_outputs(args: &RunArgs, checked: &Checked) -> anyhow::Result<()> {
    let mut known = checked.files();
    known.extend(args.file.measured.iter().map(|path| FileUse {
        path: path.clone(),
        is_written: false,
        user: "--measured".to_owned(),
    }));
    let outputs = [
        ("--record", &args.record),
        ("--stats", &args.stats),
        ("--trace", &args.trace),
        ("--waterfall", &args.waterfall),
    ];
    for (option, path) in outputs {
        let Some(path) = path else { continue };
        let output = FileUse { path: path.clone(), is_written: true, user: option.to_owned() };
        if let Some(other) = known.iter().find(|known| known.conflicts_with(&output)) {
            let (path, user) = (path.display(), &other.user);
            let uses = if other.is_written { "writes" } else { "reads" };
            bail!("{option} would overwrite {path}, which {user} {uses}: choose another file");
        }
        known.push(output);
    }
    Ok(())
}

/// Names the nodes that failed; their errors have been logged.
pub(crate) fn log_failures(report: &Report) {
    let names: Vec<_> = report.failures.iter().map(|failure| failure.node.as_str()).collect();
    if !names.is_empty() {
        let count = counted(names.len(), "node");
        log::error(format_args!("the run failed: {count} stopped: {}", names.join(", ")));
    }
}

/// Prints where the nodes have written.
fn log_written(checked: &Checked) {
    for file in checked.files().iter().filter(|file| file.is_written) {
        let path = file.path.display();
        if file.path.is_file() {
            let bytes = file.path.metadata().map_or(0, |metadata| metadata.len());
            log::progress(format_args!("wrote {path}, {bytes} bytes"));
        } else if let Ok(entries) = file.path.read_dir() {
            log::progress(format_args!("wrote {path}, {}", counted(entries.count(), "file")));
        }
    }
}

/// Prints what the run did on the GPU, if it used one.
#[cfg(feature = "vulkan")]
fn log_gpu(app: &App) {
    let services = app.open_cx().services;
    let Ok(gpu) = services.need::<afferent_gpu::Gpu>() else { return };
    let Some(device) = gpu.opened() else { return };
    let (name, counts) = (&device.info().name, device.counts());
    log::progress(format_args!(
        "{name}: {} shader runs, {}, {}",
        counts.dispatches,
        counted(usize::try_from(counts.uploads).unwrap_or(usize::MAX), "upload"),
        counted(usize::try_from(counts.readbacks).unwrap_or(usize::MAX), "readback"),
    ));
}

/// Report of a run that has ended, and true if nodes failed.
pub(crate) fn ended(result: Result<Report, RunError>) -> anyhow::Result<(Report, bool)> {
    match result {
        Ok(report) => Ok((report, false)),
        Err(RunError::Failed(report)) => Ok((*report, true)),
        Err(error) => Err(error.into()),
    }
}

/// Observers of the run.
struct Witnesses {
    recorder: Option<Arc<Recorder>>,
    trace: Option<(PathBuf, Arc<TraceFile>)>,
    waterfall: Option<Arc<Waterfall>>,
    live: Option<Arc<Live>>,
    foxglove: Option<Arc<Foxglove>>,
}

impl Witnesses {
    fn new(
        args: &RunArgs,
        checked: &Checked,
        start: SessionStart,
        role: &Role,
    ) -> anyhow::Result<Self> {
        let graph = &checked.graph;
        let record = |path: &PathBuf| {
            let attachments = attachments(&args.file, &checked.origin);
            let streams = args.record_only.clone();
            let max_bytes = args.record_limit.map(|megabytes| megabytes.saturating_mul(1_000_000));
            let options = RecordOptions {
                streams,
                attachments,
                start: Some(start),
                max_bytes,
                // Runs on the virtual clock repeat as a whole.
                calls: !args.virtual_clock,
                ..RecordOptions::default()
            };
            Recorder::create(&role.file(path, graph), graph, &options)
        };
        let trace = |path: &PathBuf| {
            let path = role.file(path, graph);
            let trace = TraceFile::create(&path, graph).with_context(|| cannot_write(&path))?;
            anyhow::Ok((path, trace))
        };
        let waterfall = Waterfall::new(graph);
        let is_shown = args.live.is_some() && role.is_main();
        let live = is_shown.then(|| Live::start(graph, waterfall.clone())).transpose()?;
        let foxglove = is_shown.then(|| Foxglove::start(graph, start)).transpose()?;
        Ok(Self {
            live,
            foxglove,
            recorder: args.record.as_ref().map(record).transpose()?,
            trace: args.trace.as_ref().map(trace).transpose()?,
            waterfall,
        })
    }

    fn observers(&self) -> Vec<Arc<dyn Observer>> {
        let recorder = self.recorder.iter().map(|recorder| recorder.clone() as Arc<dyn Observer>);
        let trace = self.trace.iter().map(|(_, trace)| trace.clone() as Arc<dyn Observer>);
        let waterfall = self.waterfall.iter().map(|times| times.clone() as Arc<dyn Observer>);
        let live = self.live.iter().map(|live| live.clone() as Arc<dyn Observer>);
        let foxglove = self.foxglove.iter().map(|channels| channels.clone() as Arc<dyn Observer>);
        recorder.chain(trace).chain(waterfall).chain(live).chain(foxglove).collect()
    }

    /// Closes the files and prints their contents to standard error. Returns false if one of them
    /// could not be written.
    fn finish(&self) -> bool {
        let mut is_written = true;
        if let Some(live) = &self.live {
            live.end();
        }
        if let Some(report) = self.recorder.as_ref().map(|recorder| recorder.finish()) {
            let (written, dropped) = (report.written(), report.dropped());
            let (path, bytes) = (report.path.display(), report.bytes);
            log::progress(format_args!("recorded {written} packets in {path}, {bytes} bytes"));
            if dropped > 0 {
                let streams = report.streams.iter().filter(|stream| stream.dropped > 0);
                let streams = streams.map(|stream| format!("{} {}", stream.output, stream.dropped));
                let streams = streams.collect::<Vec<_>>().join(", ");
                log::warning(format_args!("{dropped} packets are not in the recording: {streams}"));
            }
            if report.dropped_calls > 0 {
                let count = report.dropped_calls;
                log::warning(format_args!(
                    "{count} calls are not in the recording, so it cannot be checked"
                ));
            }
            if !report.skipped.is_empty() {
                let skipped = report.skipped.join(", ");
                log::note(format_args!("not recorded for want of a codec: {skipped}"));
            }
            if report.is_full {
                log::warning("the recording ended at its maximum size");
            }
            if let Some(error) = report.error {
                log::error(format_args!("the recording {path} is incomplete: {error}"));
                is_written = false;
            }
        }
        if let Some((path, trace)) = &self.trace {
            let report = trace.finish();
            log::progress(format_args!("traced {} calls in {}", report.calls, path.display()));
            if report.dropped > 0 {
                log::warning(format_args!("{} calls are not in the trace", report.dropped));
            }
            if let Some(error) = report.error {
                let path = path.display();
                log::error(format_args!("the trace {path} is incomplete: {error}"));
                is_written = false;
            }
        }
        is_written
    }
}

/// Files that are written at the end of the run.
struct Files {
    stats: Option<Output>,
    waterfall: Option<Output>,
}

impl Files {
    fn open(args: &RunArgs) -> anyhow::Result<Self> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Self { stats: open(&args.stats)?, waterfall: open(&args.waterfall)? })
    }
}

/// Attachments of a recording: the graph files, by their paths from the folder of the graph file,
/// and the values from the command line and the environment.
fn attachments(file: &GraphFile, origin: &Origin) -> Vec<(String, Vec<u8>)> {
    let folder = file.graph.parent().unwrap_or(Path::new(""));
    let files = origin.files.iter().map(|(path, text)| {
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        (name, text.clone().into_bytes())
    });
    let values = serde_json::json!({
        "profile": file.profile,
        "set": file.set,
        "params": origin.params,
        "environment": origin.environment,
    });
    files.chain([("values.json".to_owned(), values.to_string().into_bytes())]).collect()
}

/// The first Ctrl-C stops and drains the graph; the second ends the process. `is_main` says so to
/// the user.
pub(crate) fn stop_on_ctrl_c(session: &Session, is_main: bool) -> anyhow::Result<()> {
    let stop = session.stop_handle();
    // The run may have been stopped by its own end before.
    let pressed = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if pressed.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        stop.stop();
        if is_main {
            log::progress("stopping; press Ctrl-C again to end at once");
        }
    })
    .context("cannot listen to Ctrl-C")
}

fn show(
    args: &RunArgs,
    report: &Report,
    waterfall: Option<&Waterfall>,
    files: Files,
) -> anyhow::Result<()> {
    let mut json = serde_json::to_value(report)?;
    if let (Some(waterfall), Some(object)) = (waterfall, json.as_object_mut()) {
        object.insert("waterfall".to_owned(), serde_json::to_value(waterfall.turns())?);
        object.insert("waterfall_earlier".to_owned(), waterfall.earlier().into());
    }
    if let (Some(file), Some(waterfall)) = (files.waterfall, waterfall) {
        file.write(waterfall.svg().as_bytes())?;
    }
    if let Some(file) = files.stats {
        file.write(serde_json::to_string_pretty(&json)?.as_bytes())?;
    }
    if args.json {
        crate::print(&format!("{}\n", serde_json::json!({"summary": json})))?;
    } else {
        let mut text = String::new();
        report.write_summary(&mut text)?;
        waterfall.map_or(Ok(()), |waterfall| waterfall.write_summary(&mut text))?;
        crate::print(&format!("\n{}\n", text.trim_end()))?;
    }
    Ok(())
}

/// Names the exceeded budgets, with `--enforce-budget`.
fn enforce_budget(args: &RunArgs, report: &Report) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for budget in report.budgets.iter().filter(|budget| args.enforce_budget && !budget.kept) {
        let why = if budget.measured == 0 { "was never measured" } else { "was not kept" };
        let (from, to) = (&budget.from, &budget.to);
        log::error(format_args!("the budget from {from} to {to} {why}"));
        code = ExitCode::FAILURE;
    }
    code
}
