//! Speech synthesis with the program espeak-ng, cached in files.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{ErrorKind, Write},
    path::PathBuf,
    process::{Command, Stdio, id},
};

use crate::spec::Speech;

/// Name of the program. An environment variable may override it.
const PROGRAM: &str = "espeak-ng";
const VARIABLE: &str = "AFFERENT_ESPEAK";

#[derive(Debug)]
pub(crate) struct Espeak {
    cache: PathBuf,
}

impl Espeak {
    pub(crate) fn new(cache: PathBuf) -> Self {
        Self { cache }
    }

    /// Returns a sound file with the synthesized speech, cached after the first call.
    ///
    /// # Errors
    /// The reason, and how to fix it.
    pub(crate) fn say(&self, speech: &Speech) -> Result<PathBuf, String> {
        let mut hasher = DefaultHasher::new();
        speech.hash(&mut hasher);
        let path = self.cache.join(format!("say-{:016x}.wav", hasher.finish()));
        if path.is_file() {
            return Ok(path);
        }
        let failed = |error| format!("{} cannot be written: {error}", path.display());
        fs::create_dir_all(&self.cache).map_err(failed)?;
        // Written to a temporary file first, because other processes may look for the result.
        let temporary = path.with_extension(format!("{}.tmp", id()));
        let Speech { text, voice, rate, pitch } = speech;
        let program = std::env::var(VARIABLE).unwrap_or_else(|_| PROGRAM.to_owned());
        let child = Command::new(&program)
            .args(["-v", voice, "-s", &rate.to_string(), "-p", &pitch.to_string(), "--stdin", "-w"])
            .arg(&temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!(
                "\"say\" needs the program {program}, which is not installed: install the package \
                 espeak-ng, set {VARIABLE} to its path, or write \"play\" and a sound file"
            ),
            _ => format!("{program} cannot be started: {error}"),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A failed write is reported through the output of the program.
            let _ = stdin.write_all(text.as_bytes());
        }
        let output = child.wait_with_output();
        let output = output.map_err(|error| format!("{program} failed: {error}"))?;
        if !output.status.success() || !temporary.is_file() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{program} failed with voice \"{voice}\": {}", said.trim()));
        }
        fs::rename(&temporary, &path).map_err(failed)?;
        Ok(path)
    }
}
