//! Runs other frameworks on the loads of `afferent-bench hop` and prints what it measured as JSON.
//!
//! `copper BATCHES CYCLES` prints the time of each batch of cycles; `iceoryx2 PACKETS BYTES
//! GAP_US` the time of each hop; both a list of nanoseconds.

mod copper;
mod iceoryx;

use std::{env, error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let times = match words.as_slice() {
        ["copper", batches, cycles] => {
            copper::batches(batches.parse()?, cycles.parse()?).map_err(|error| error.to_string())?
        }
        ["iceoryx2", packets, bytes, gap_us] => iceoryx::hops(
            packets.parse()?,
            bytes.parse()?,
            Duration::from_micros(gap_us.parse()?),
        )?,
        _ => return Err("copper BATCHES CYCLES, or iceoryx2 PACKETS BYTES GAP_US".into()),
    };
    println!("{times:?}");
    Ok(())
}
