//! iceoryx2 between two threads of a process: zero-copy payloads, and an event that wakes the
//! receiver.

use std::{
    error::Error,
    thread,
    time::{Duration, Instant},
};

use iceoryx2::prelude::*;

type BoxError = Box<dyn Error + Send + Sync>;

/// Latency of each packet in nanoseconds, from just before sending until reception. The receiver
/// sleeps between packets.
pub(crate) fn hops(packets: usize, bytes: usize, gap: Duration) -> Result<Vec<u64>, BoxError> {
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<local_threadsafe::Service>()?;
    let name = "afferent/bench".try_into()?;
    let stream =
        node.service_builder(&name).publish_subscribe::<[u8]>().user_header::<u64>().create()?;
    let event = node.service_builder(&name).event().create()?;
    let publisher = stream.publisher_builder().initial_max_slice_len(bytes).create()?;
    let notifier = event.notifier_builder().create()?;
    let subscriber = stream.subscriber_builder().create()?;
    let listener = event.listener_builder().create()?;
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;

    thread::scope(|scope| {
        let receiver = scope.spawn(move || -> Result<Vec<u64>, BoxError> {
            let mut times = Vec::with_capacity(packets);
            while times.len() < packets {
                listener.blocking_wait(&mut |_| {})?;
                while let Some(sample) = subscriber.receive()? {
                    times.push(now().saturating_sub(*sample.user_header()));
                }
            }
            Ok(times)
        });
        for number in 0..packets {
            thread::sleep(gap);
            let mut sample = publisher.loan_slice(bytes)?;
            sample.payload_mut()[0] = number as u8;
            *sample.user_header_mut() = now();
            sample.send()?;
            notifier.notify()?;
        }
        receiver.join().map_err(|_| "the receiver panicked")?
    })
}
