//! A running machine: its output and its end.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write, stderr, stdout},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc::Sender},
    thread::{self, JoinHandle},
};

use crate::lock;

/// Lines that are repeated after a failure.
const LAST_LINES: usize = 10;

/// A machine that has been started.
pub(super) struct Running {
    /// The machine stops when this end of the pipe is closed.
    input: Mutex<Option<ChildStdin>>,
    child: Arc<Mutex<Child>>,
}

/// End of a machine.
pub(super) struct Ended {
    pub(super) machine: String,
    pub(super) status: ExitStatus,
    /// Last lines that it printed.
    pub(super) last: VecDeque<String>,
}

type Lines = Arc<Mutex<VecDeque<String>>>;

impl Running {
    /// Starts `command`. Its lines are printed after the name of the machine, and its end is sent
    /// to `ends`.
    pub(super) fn start(
        machine: &str,
        mut command: Command,
        ends: Sender<Ended>,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C reaches this program only, which then stops the machines in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let input = Mutex::new(child.stdin.take());
        let last = Lines::default();
        let readers = [
            child.stdout.take().map(|pipe| follow(pipe, stdout(), machine, &last)),
            child.stderr.take().map(|pipe| follow(pipe, stderr(), machine, &last)),
        ];
        let child = Arc::new(Mutex::new(child));
        let (machine, waited) = (machine.to_owned(), child.clone());
        thread::spawn(move || {
            // The pipes end with the program; only then is its status asked for.
            for reader in readers.into_iter().flatten() {
                let _ = reader.join();
            }
            let Ok(status) = lock(&waited).wait() else { return };
            let last = lock(&last).clone();
            let _ = ends.send(Ended { machine, status, last });
        });
        Ok(Self { input, child })
    }

    /// Asks the machine to stop.
    pub(super) fn stop(&self) {
        drop(lock(&self.input).take());
    }

    /// Ends the connection.
    pub(super) fn kill(&self) {
        // A lock that is held belongs to the thread that waits for the end.
        if let Ok(mut child) = self.child.try_lock() {
            let _ = child.kill();
        }
    }
}

/// Prints the lines of `pipe` to `out`, after the name of the machine, and keeps the last ones.
fn follow(
    pipe: impl Read + Send + 'static,
    mut out: impl Write + Send + 'static,
    machine: &str,
    last: &Lines,
) -> JoinHandle<()> {
    let (machine, last) = (machine.to_owned(), last.clone());
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while pipe.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&bytes);
            let line = text.trim_end_matches(['\n', '\r']);
            // A closed terminal does not stop the machines.
            let _ = writeln!(out, "{machine} | {line}");
            let mut last = lock(&last);
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(line.to_owned());
            drop(last);
            bytes.clear();
        }
    })
}
