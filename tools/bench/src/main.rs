//! Prints every figure that the project claims, with its peers in the same run.

#![expect(clippy::print_stdout, reason = "figures are what this program is for")]
#![expect(clippy::print_stderr, reason = "long work shows how far it is")]

mod agent;
mod allocations;
mod asr;
mod attention;
mod call;
mod callgrind;
mod conversation;
mod damaged;
mod document;
mod echo;
mod figures;
mod flow;
mod gemm;
mod generate;
mod hop;
mod load;
mod models;
mod operators;
mod packages;
mod peer;
mod process;
mod scripted;
mod soak;
mod subject;
mod table;
mod timing;
mod tts;
mod vad;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

/// Measures Afferent.
///
/// Whatever is compared is measured in one run; against a peer program in alternating rounds, so
/// that a shared machine disturbs both sides alike. Compare the figures of one run with each other
/// and never with those of another.
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
    Flow(flow::Options),
    Gemm(gemm::Options),
    Generate(generate::Options),
    Hop(hop::Options),
    Load(load::Options),
    #[command(hide = true)]
    LoadOnce(load::OnceOptions),
    Models(models::Options),
    Operators(operators::Options),
    Packages(packages::Options),
    Soak(soak::Options),
    Tts(tts::Options),
    Vad(vad::Options),
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
        Command::Flow(options) => {
            return show(flow::run(&options, cli.json)?, cli.update.as_deref());
        }
        Command::Gemm(options) => gemm::run(&options)?,
        Command::Generate(options) => generate::run(&options)?,
        Command::Hop(options) => return show(hop::run(&options, cli.json)?, cli.update.as_deref()),
        Command::Load(options) => load::run(&options)?,
        Command::LoadOnce(options) => return load::once(&options),
        Command::Models(options) => models::run(&options)?,
        Command::Operators(options) => operators::run(&options)?,
        Command::Packages(options) => packages::run(&options)?,
        Command::Soak(options) => {
            return show(soak::run(&options, cli.json)?, cli.update.as_deref());
        }
        Command::Tts(options) => tts::run(&options)?,
        Command::Vad(options) => return show(vad::run(&options, cli.json)?, cli.update.as_deref()),
        Command::Loop(options) => return callgrind::run_loop(&options),
    };
    if cli.json {
        println!("{:#}", table::to_json(&tables));
        return Ok(());
    }
    let text: String = tables.iter().map(|table| format!("{table}\n")).collect();
    show((text, Ok(())), cli.update.as_deref())
}

/// Prints figures, writes them to a document, and fails if a bar is missed.
fn show(
    (text, verdict): (String, anyhow::Result<()>),
    update: Option<&Path>,
) -> anyhow::Result<()> {
    print!("{text}");
    if let Some(path) = update {
        document::update(path, &command_line(), &text)?;
    }
    verdict
}

/// This command without the paths of this machine: options keep their names only.
fn command_line() -> String {
    let mut words = vec!["afferent-bench".to_owned()];
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--update" {
            args.next();
        } else if arg.contains('/') {
            words.push("PATH".to_owned());
        } else {
            words.push(arg);
        }
    }
    words.join(" ")
}
