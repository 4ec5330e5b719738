//! Listens to samples on the standard input, for tools/zoo:
//!
//!     listen features < samples > rows
//!     listen PROGRAM < samples > scores
//!
//! Samples are `i16` at 16 kHz, rows 40 values `i8`, and scores four values `f32`, without headers.
//! A third argument `events` prints the detected phrases as text instead of the scores.

use std::{
    error::Error,
    io::{Read, Write, stdin, stdout},
    path::Path,
};

use afferent_runtime::ModelOptions;
use afferent_wake::{HostNetwork, Listener, LogMel};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut bytes = Vec::new();
    stdin().read_to_end(&mut bytes)?;
    let samples: Vec<i16> =
        bytes.as_chunks::<2>().0.iter().map(|&bytes| i16::from_le_bytes(bytes)).collect();
    let mut out = Vec::new();
    match &arguments[..] {
        [mode] if mode == "features" => {
            LogMel::new().push(&samples, |row| out.extend(row.map(i8::cast_unsigned)));
        }
        [program, mode @ ..] => {
            let options = ModelOptions::new(afferent_kernels::KERNELS);
            let network = HostNetwork::open(Path::new(program), options)?;
            Listener::new(network).push(&samples, |step| {
                if mode.is_empty() {
                    out.extend(step.scores.iter().flat_map(|score| score.to_le_bytes()));
                } else if let Some(detected) = step.detected {
                    let (label, _) = Listener::LABELS[detected.label];
                    out.extend(format!("{} {label} {}\n", step.end, detected.score).bytes());
                }
            })?;
        }
        [] => return Err("the first argument must be `features` or a program".into()),
    }
    stdout().write_all(&out)?;
    Ok(())
}
