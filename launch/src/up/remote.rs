//! Commands on a machine: ssh and the scripts that it runs.

use std::{
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

use super::bundle::{Bundle, KEYS};

/// Starts `PROGRAM run` and stops it when standard input ends: with the program that started the
/// script, or with the connection.
const RUN: &str = r#"exec 3<&0
PROGRAM run "$@" </dev/null 3<&- &
run=$!
{ cat <&3; kill -TERM $run; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait $run
status=$?
kill $watch 2>/dev/null
exit $status"#;

/// The program that reaches other machines.
pub(super) struct Login<'a> {
    pub(super) program: &'a Path,
    pub(super) options: &'a [String],
}

impl Login<'_> {
    /// Command that runs `script` on `host`, or here.
    pub(super) fn command(&self, host: Option<&str>, script: &str) -> Command {
        let Some(host) = host else {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            return command;
        };
        let mut command = Command::new(self.program);
        // No terminal, and no questions: the machines would ask at the same time. The first value of
        // an option counts.
        command.arg("-T");
        for option in self.options {
            command.args(["-o", option]);
        }
        command.args(["-o", "BatchMode=yes", "--", host, script]);
        command
    }

    /// Runs `script` on `host` with what `write` writes as its input. Returns its output.
    pub(super) fn feed(
        &self,
        host: &str,
        script: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<String> {
        let mut command = self.command(Some(host), script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = self.program.display();
        let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
        let mut pipe = child.stdin.take().expect("it is piped");
        let written = write(&mut pipe).and_then(|()| pipe.flush());
        drop(pipe);
        let ended = child.wait_with_output()?;
        // If the other side has closed the pipe, it says why.
        if let Err(error) = written
            && (ended.status.success() || error.kind() != io::ErrorKind::BrokenPipe)
        {
            return Err(error.into());
        }
        if !ended.status.success() {
            let errors = String::from_utf8_lossy(&ended.stderr).trim_end().to_owned();
            bail!("{name} ended with {}: {errors}", ended.status);
        }
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }
}

/// Commands of a machine, as text for a POSIX shell.
pub(super) struct Script {
    /// Program, as a word of the shell.
    program: String,
    /// Folder of the files, as a word of the shell; `None` for the machine that starts the others.
    dir: Option<String>,
    /// Commands ahead of the program.
    enter: String,
    /// Graph file and file of `--machines`, as words of the shell.
    files: Vec<String>,
    /// Folder of certificates and keys, as a word of the shell.
    keys: Option<String>,
    /// Options of placement and of the graph.
    pub(super) options: Vec<String>,
    /// Options of `run`.
    pub(super) run_options: Vec<String>,
}

impl Script {
    /// The machine that starts the others: files are where they are.
    pub(super) fn here(
        program: String,
        graph: &Path,
        machines: &Path,
        keys: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let word = |path: &Path| {
            let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
            anyhow::Ok(quote(text))
        };
        let files = vec![word(graph)?, "--machines".to_owned(), word(machines)?];
        let keys = keys.map(word).transpose()?;
        let (program, dir, enter) = (quote(&program), None, String::new());
        Ok(Self { program, dir, enter, files, keys, options: Vec::new(), run_options: Vec::new() })
    }

    /// Another machine: files are those of `bundle`, in `dir`.
    pub(super) fn remote(
        program: String,
        dir: String,
        bundle: &Bundle,
        keys: bool,
    ) -> anyhow::Result<Self> {
        let dir = in_home(&dir);
        let [folder, graph, machines] = bundle.names()?;
        let enter = format!("cd {dir} && root=$PWD && cd ./{} || exit\n", quote(&folder));
        let from_root = |file: &str| format!("\"$root\"/{}", quote(file));
        let files = vec![quote(&graph), "--machines".to_owned(), from_root(&machines)];
        let keys = keys.then(|| from_root(KEYS));
        let (program, dir) = (in_home(&program), Some(dir));
        Ok(Self { program, dir, enter, files, keys, options: Vec::new(), run_options: Vec::new() })
    }

    /// Unpacks standard input, for the owner of the folder only.
    pub(super) fn unpack(&self) -> String {
        let dir = self.dir.as_deref().unwrap_or(".");
        format!("umask 077; mkdir -p {dir} && tar -xf - -C {dir}")
    }

    /// Runs the graph.
    pub(super) fn run(&self) -> String {
        let mut words = self.words();
        words.extend(self.keys.iter().flat_map(|keys| ["--keys".to_owned(), keys.clone()]));
        words.extend(self.run_options.iter().map(|option| quote(option)));
        let run = RUN.replacen("PROGRAM", &self.program, 1);
        format!("{}set -- {}\n{run}", self.enter, words.join(" "))
    }

    /// Prints the SHA-256 of programs that the machine lacks.
    pub(super) fn missing(&self) -> String {
        format!("{}{} models {} --missing", self.enter, self.program, self.words().join(" "))
    }

    /// Stores standard input as the program with the SHA-256 `sha256`.
    pub(super) fn store(&self, sha256: &str) -> String {
        let (enter, program) = (&self.enter, &self.program);
        format!("{enter}{program} --quiet model store - --sha256 {}", quote(sha256))
    }

    fn words(&self) -> Vec<String> {
        let options = self.options.iter().map(|option| quote(option));
        self.files.iter().cloned().chain(options).collect()
    }
}

/// `text` as one word of a POSIX shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// As [`quote`], with `~/` for the home folder.
fn in_home(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quote(rest)),
        None => quote(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_shell_reads_words_as_they_were() {
        for text in ["", "a b", "it's", "$HOME `x` \"y\" \\", "*", "a\nb", "-n"] {
            let script = format!("printf %s {}", quote(text));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
        assert_eq!(in_home("~/a b"), "\"$HOME\"/'a b'");
        assert_eq!(in_home("/srv/a"), "'/srv/a'");
    }
}
