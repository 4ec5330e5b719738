//! Programs that run graphs: [`App`] has the shipped nodes, kernels and backends, takes more of
//! them, loads, starts, watches and stops a graph. [`App::main`] is the command line on top of it.
//!
//! Begin with `launch/examples`: `embed_graph.rs` runs a graph inside a program, `custom_node.rs`
//! adds a node to the command line, `run_program.rs` and `generate_text.rs` run a `.pte` without a
//! graph.
//!
//! | module | holds |
//! |---|---|
//! | `app` | the builder |
//! | `run`, `replay`, `test`, `top`, `graph_file`, `nodes`, `new`, `devices`, `doctor`, `keys`, `models`, `up`, `package`, `memory`, `model` | one command each |
//! | `serve` | figures over HTTP, for `top` and Prometheus |
//! | `live` | the running graph on a page |
//! | `log` | lines on standard error |
//! | `placement` | options of machines and processes |
//! | `output`, `table` | files and text that commands write |

mod app;
mod devices;
mod doctor;
mod foxglove;
mod graph_file;
mod keys;
mod live;
mod log;
#[cfg(feature = "scene-memory")]
mod memory;
mod merge;
mod model;
mod models;
mod new;
mod nodes;
mod output;
mod package;
mod placement;
mod processes;
mod replay;
mod run;
mod serve;
mod table;
mod test;
mod tls;
mod top;
mod up;

use std::{
    ffi::OsString,
    io::{ErrorKind, Write, stdout},
    process::ExitCode,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub use afferent_core as core;
pub use afferent_engine as engine;
pub use afferent_graph as graph;
pub use afferent_messages as messages;
pub use afferent_runtime as runtime;
pub use afferent_spec as spec;
pub use afferent_text as text;
pub use app::App;
use clap::{Parser, Subcommand};

/// Streaming dataflow for robots, glasses and headsets, with ExecuTorch models.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    verbosity: log::Verbosity,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a graph until its sources end or Ctrl-C stops it
    Run(Box<run::RunArgs>),
    /// Run a graph again on a recording, on a virtual clock
    Replay(replay::ReplayArgs),
    /// Make one recording of those of the processes of a run
    Merge(merge::MergeArgs),
    /// Make certificates for the machines of a graph
    Keys(keys::KeysArgs),
    /// Start a graph on all of its machines, over ssh
    Up(up::UpArgs),
    /// List the programs of the models of a graph, and find those that this machine lacks
    Models(models::ModelsArgs),
    /// Run scenarios: a simulated user, and the expected behavior of a graph
    Test(test::TestArgs),
    /// Show the live figures of a graph that was started with --serve
    Top(top::TopArgs),
    /// Report every fault of a graph; exit status 0 only if it would start
    Check(graph_file::CheckArgs),
    /// Draw a graph
    Graph(graph_file::GraphArgs),
    /// List the node types, or show the contract of one
    Nodes(nodes::NodesArgs),
    /// List microphones, speakers, cameras and motion sensors
    Devices(devices::DevicesArgs),
    /// Show the parts of this machine that a graph can use
    Doctor,
    /// Write a template
    #[command(subcommand)]
    New(new::NewCommand),
    /// Write a model package from programs (.pte) and the files beside them
    Package(package::PackageArgs),
    /// List the entities in a file of a scene memory
    #[cfg(feature = "scene-memory")]
    Memory(memory::MemoryArgs),
    /// Inspect a model program (.pte), run it, verify it, compare two, or generate text
    #[command(subcommand)]
    Model(model::ModelCommand),
}

/// Locks a mutex whose value is complete also after a panic of a thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    /// Runs the command that the arguments of the process name.
    pub fn main(self) -> ExitCode {
        self.run_command(std::env::args_os()).into()
    }

    /// Runs the command that `arguments` name, after the name of the program. Returns the
    /// exit status. Wrong arguments are explained on standard error.
    pub fn run_command(
        self,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> u8 {
        let Cli { verbosity, command } = match Cli::try_parse_from(arguments) {
            Ok(cli) => cli,
            Err(error) => {
                // A closed pipe is not an error.
                let _ = error.print();
                return u8::try_from(error.exit_code()).unwrap_or(1);
            }
        };
        verbosity.start();
        match self.with_user_choices().run(command) {
            Ok(code) if code == ExitCode::SUCCESS => 0,
            Ok(_) => 1,
            Err(error) => {
                log::error(format_args!("{error:#}"));
                1
            }
        }
    }

    fn run(self, command: Command) -> anyhow::Result<ExitCode> {
        match command {
            Command::Run(args) => run::run(self, &args),
            Command::Replay(args) => replay::replay(self, &args),
            Command::Merge(args) => merge::run(&args),
            Command::Keys(args) => keys::keys(self, &args),
            Command::Up(args) => up::up(self, &args),
            Command::Models(args) => models::models(self, &args),
            Command::Test(args) => test::test(&self, &args),
            Command::Top(args) => top::top(&args),
            Command::Check(args) => graph_file::check(self, &args),
            Command::Graph(args) => graph_file::draw(self, &args),
            Command::Nodes(args) => nodes::nodes(&self, &args),
            Command::Devices(args) => devices::devices(&args),
            Command::Doctor => doctor::doctor(&self),
            Command::New(command) => new::new(&self, &command),
            Command::Package(args) => package::package(&self, &args),
            #[cfg(feature = "scene-memory")]
            Command::Memory(args) => memory::memory(&args),
            Command::Model(command) => model::model(&self, &command),
        }
    }
}

/// Writes `text` to standard output. A closed pipe is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    print_to_reader(text).map(drop)
}

/// As [`print`]; returns false if the pipe is closed.
fn print_to_reader(text: &str) -> anyhow::Result<bool> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}
