//! Runs other frameworks on the workloads of `afferent-bench hop` and prints times as JSON.
//!
//! `copper BATCHES CYCLES` prints the time of each batch of cycles. `iceoryx2 PACKETS BYTES GAP_US`
//! prints the latency of each packet between threads, and `iceoryx2-process PACKETS BYTES GAP_US
//! copied|in-place` between processes. All print a list of nanoseconds.

mod copper;
mod iceoryx;
mod iceoryx_process;

use std::{env, error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let times = match args.as_slice() {
        ["copper", batches, cycles] => {
            copper::batches(batches.parse()?, cycles.parse()?).map_err(|error| error.to_string())?
        }
        ["iceoryx2", packets, bytes, gap_us] => {
            iceoryx::hops(packets.parse()?, bytes.parse()?, Duration::from_micros(gap_us.parse()?))?
        }
        ["iceoryx2-process", packets, bytes, gap_us, fill] => {
            let gap = Duration::from_micros(gap_us.parse()?);
            iceoryx_process::hops(packets.parse()?, bytes.parse()?, gap, *fill == "copied")?
        }
        ["iceoryx2-receiver", packets, name] => iceoryx_process::receive(packets.parse()?, name)?,
        _ => return Err("usage: copper BATCHES CYCLES | iceoryx2 PACKETS BYTES GAP_US".into()),
    };
    println!("{times:?}");
    Ok(())
}
