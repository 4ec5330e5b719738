//! Benchmarks of Afferent and, in the same run, of its peers.
//!
//! Each subcommand is one module with an `Options` struct and a `run` function. `table` and
//! `metrics` format the results; `peer` runs the official ExecuTorch runtime. Begin with `call`,
//! the shortest benchmark of the runtime, or `hop`, that of the graph engine.

#![expect(clippy::print_stdout, reason = "prints the results")]
#![expect(clippy::print_stderr, reason = "prints the progress of long benchmarks")]

mod agent;
mod allocations;
mod asr;
mod attention;
mod bench_target;
mod call;
mod callgrind;
mod camera;
mod closure_graph;
mod conversation;
mod damaged;
mod document;
mod echo;
mod first_word;
mod flow;
mod gemm;
mod generate;
#[cfg(feature = "gpu")]
mod gpu;
mod hop;
mod image;
mod live;
mod load;
#[cfg(feature = "net")]
mod machine_hop;
#[cfg(feature = "net")]
mod machine_latest;
mod machine_loss;
mod metrics;
mod models;
mod operators;
mod packages;
mod peer;
mod process;
mod process_hop;
mod process_loss;
mod recognition;
mod scene_memory;
mod soak;
mod start;
mod table;
mod timing;
mod tts;
mod vad;
mod vision;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

/// Measures Afferent.
///
/// Both sides of a comparison are measured in the same run, in alternating rounds with a peer
/// program. Other load on the machine then affects both sides equally. Do not compare results of
/// different runs.
#[derive(Parser)]
#[command(name = "afferent-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    json: bool,
    /// Write the output to the section of this command in a Markdown file too.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "json")]
    update: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    Agent(agent::Options),
    Asr(asr::Options),
    Attention(attention::Options),
    Call(call::Options),
    Conversation(conversation::Options),
    Damaged(damaged::Options),
    #[command(hide = true)]
    DamagedOnce(damaged::OnceOptions),
    Echo(echo::Options),
    FirstWord(first_word::Options),
    Flow(flow::Options),
    Gemm(gemm::Options),
    Generate(generate::Options),
    #[cfg(feature = "gpu")]
    Gpu(gpu::Options),
    Hop(hop::Options),
    Image(image::Options),
    Live(live::Options),
    Load(load::Options),
    #[command(hide = true)]
    LoadOnce(load::OnceOptions),
    #[cfg(feature = "net")]
    MachineHop(machine_hop::Options),
    #[cfg(feature = "net")]
    #[command(hide = true)]
    MachineHopReceiver(machine_hop::ReceiverOptions),
    #[cfg(feature = "net")]
    MachineLatest(machine_latest::Options),
    #[cfg(feature = "net")]
    #[command(hide = true)]
    MachineLatestReceiver(machine_latest::ReceiverOptions),
    MachineLoss(machine_loss::Options),
    Models(models::Options),
    Operators(operators::Options),
    Packages(packages::Options),
    ProcessHop(process_hop::Options),
    ProcessLoss(process_loss::Options),
    #[command(hide = true)]
    ProcessHopReceiver(process_hop::ReceiverOptions),
    SceneMemory(scene_memory::Options),
    Soak(soak::Options),
    Start(start::Options),
    Tts(tts::Options),
    Vad(vad::Options),
    Vision(vision::Options),
    #[command(hide = true)]
    Loop(callgrind::LoopOptions),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let tables = match cli.command {
        Command::Agent(options) => agent::run(&options)?,
        Command::Asr(options) => asr::run(&options)?,
        Command::Attention(options) => attention::run(&options)?,
        Command::Call(options) => call::run(&options)?,
        Command::Damaged(options) => damaged::run(&options)?,
        Command::DamagedOnce(options) => return damaged::once(&options),
        Command::Conversation(options) => {
            return show(conversation::run(&options, cli.json)?, cli.update.as_deref());
        }
        Command::Echo(options) => echo::run(&options)?,
        Command::FirstWord(options) => {
            let (tables, verdict) = first_word::run(&options)?;
            print_tables(&tables, cli.json, cli.update.as_deref())?;
            return verdict;
        }
        Command::Flow(options) => {
            return show(flow::run(&options, cli.json)?, cli.update.as_deref());
        }
        Command::Gemm(options) => gemm::run(&options)?,
        Command::Generate(options) => generate::run(&options)?,
        #[cfg(feature = "gpu")]
        Command::Gpu(options) => gpu::run(&options)?,
        Command::Hop(options) => return show(hop::run(&options, cli.json)?, cli.update.as_deref()),
        Command::Image(options) => image::run(&options)?,
        Command::Live(options) => live::run(&options)?,
        Command::Load(options) => load::run(&options)?,
        Command::LoadOnce(options) => return load::once(&options),
        Command::Models(options) => models::run(&options)?,
        Command::Operators(options) => operators::run(&options)?,
        Command::Packages(options) => packages::run(&options)?,
        #[cfg(feature = "net")]
        Command::MachineHop(options) => machine_hop::run(&options)?,
        #[cfg(feature = "net")]
        Command::MachineHopReceiver(options) => return machine_hop::receive(&options),
        #[cfg(feature = "net")]
        Command::MachineLatest(options) => machine_latest::run(&options)?,
        #[cfg(feature = "net")]
        Command::MachineLatestReceiver(options) => return machine_latest::receive(&options),
        Command::MachineLoss(options) => machine_loss::run(&options)?,
        Command::ProcessHop(options) => process_hop::run(&options)?,
        Command::ProcessLoss(options) => process_loss::run(&options)?,
        Command::ProcessHopReceiver(options) => return process_hop::receive(&options),
        Command::SceneMemory(options) => scene_memory::run(&options)?,
        Command::Soak(options) => {
            return show(soak::run(&options, cli.json)?, cli.update.as_deref());
        }
        Command::Start(options) => {
            let (tables, verdict) = start::run(&options)?;
            print_tables(&tables, cli.json, cli.update.as_deref())?;
            return verdict;
        }
        Command::Tts(options) => tts::run(&options)?,
        Command::Vision(options) => vision::run(&options)?,
        Command::Vad(options) => return show(vad::run(&options, cli.json)?, cli.update.as_deref()),
        Command::Loop(options) => return callgrind::run_loop(&options),
    };
    print_tables(&tables, cli.json, cli.update.as_deref())
}

/// Prints tables as text or as JSON, and writes the text to the document.
fn print_tables(tables: &[table::Table], json: bool, update: Option<&Path>) -> anyhow::Result<()> {
    if json {
        println!("{:#}", table::to_json(tables));
        return Ok(());
    }
    let text: String = tables.iter().map(|table| format!("{table}\n")).collect();
    show((text, Ok(())), update)
}

/// Prints the metrics, writes them to a document, then returns the verdict.
fn show(
    (text, verdict): (String, anyhow::Result<()>),
    update: Option<&Path>,
) -> anyhow::Result<()> {
    print!("{text}");
    if let Some(path) = update {
        document::update(path, &document::command_line(std::env::args().skip(1)), &text)?;
    }
    verdict
}
