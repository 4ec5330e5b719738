//! iceoryx2 between two processes: payloads in shared memory, and an event that wakes the receiver.

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Write},
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};

use iceoryx2::prelude::*;

type BoxError = Box<dyn Error + Send + Sync>;

/// Clock that all processes of the machine share, in nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Latency of each packet in nanoseconds, from just before sending until the receiver has read its
/// last byte. The sender copies the packet to shared memory, or writes only its last byte.
pub(crate) fn hops(
    packets: usize,
    bytes: usize,
    gap: Duration,
    copies: bool,
) -> Result<Vec<u64>, BoxError> {
    set_log_level(LogLevel::Error);
    let name = format!("afferent/bench/{}", process::id());
    let service: ServiceName = name.as_str().try_into()?;
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let stream =
        node.service_builder(&service).publish_subscribe::<[u8]>().user_header::<u64>().create()?;
    let event = node.service_builder(&service).event().create()?;
    let publisher = stream.publisher_builder().initial_max_slice_len(bytes).create()?;
    let notifier = event.notifier_builder().create()?;
    let mut child = Command::new(env::current_exe()?)
        .args(["iceoryx2-receiver", &packets.to_string(), &name])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    let source = vec![7; bytes];
    for _ in 0..packets {
        thread::sleep(gap);
        let start = now();
        let mut sample = publisher.loan_slice_uninit(bytes)?;
        *sample.user_header_mut() = start;
        let sample = if copies {
            sample.write_from_slice(&source)
        } else {
            sample.payload_mut()[bytes - 1].write(7);
            // SAFETY: the receiver reads only the byte that was written.
            unsafe { sample.assume_init() }
        };
        sample.send()?;
        notifier.notify()?;
    }
    line.clear();
    output.read_line(&mut line)?;
    child.wait()?;
    let list = line.trim().trim_start_matches('[').trim_end_matches(']');
    Ok(list.split(", ").map(str::parse).collect::<Result<_, _>>()?)
}

/// Receives packets of the service `name`; returns the latency of each.
pub(crate) fn receive(packets: usize, name: &str) -> Result<Vec<u64>, BoxError> {
    set_log_level(LogLevel::Error);
    let service: ServiceName = name.try_into()?;
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let stream =
        node.service_builder(&service).publish_subscribe::<[u8]>().user_header::<u64>().open()?;
    let event = node.service_builder(&service).event().open()?;
    let subscriber = stream.subscriber_builder().create()?;
    let listener = event.listener_builder().create()?;
    println!("ready");
    std::io::stdout().flush()?;
    let mut times = Vec::with_capacity(packets);
    while times.len() < packets {
        listener.blocking_wait(&mut |_| {})?;
        while let Some(sample) = subscriber.receive()? {
            std::hint::black_box(sample.payload().last());
            times.push(now().saturating_sub(*sample.user_header()));
        }
    }
    Ok(times)
}
