//! A wire between two machines that loses, repeats, delays and reorders datagrams, and breaks.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use afferent_transport::{
    monotonic_ns,
    remote::{Datagram, Received, RemoteLink, Wire, WireEvent},
};
use fastrand::Rng;

/// Faults, in thousandths of all datagrams, and the time between two interruptions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u32,
    pub(crate) repeated: u32,
    pub(crate) delayed: u32,
    pub(crate) interruptions: Option<Duration>,
}

/// One direction.
pub(crate) struct FaultyWire(mpsc::Sender<(u16, Datagram)>);

impl Wire for FaultyWire {
    fn put(&self, stream: u16, datagram: Datagram) {
        let _ = self.0.send((stream, datagram));
    }

    fn close(&self) {}
}

/// Wires in both directions, and the ends that deliver once they know where to: a thread each.
pub(crate) struct Pair {
    pub(crate) wires: [Arc<FaultyWire>; 2],
    ends: [mpsc::Receiver<(u16, Datagram)>; 2],
}

impl Pair {
    pub(crate) fn new() -> Self {
        let [(one, from_one), (other, from_other)] = [mpsc::channel(), mpsc::channel()];
        let wires = [one, other].map(|queue| Arc::new(FaultyWire(queue)));
        Self { wires, ends: [from_one, from_other] }
    }

    /// Starts to deliver to the links of the two machines.
    pub(crate) fn start(self, links: [Arc<RemoteLink>; 2], faults: Faults, seed: u64) {
        let is_up = Arc::new(Mutex::new(true));
        for link in &links {
            link.event(WireEvent::Up);
        }
        if let Some(period) = faults.interruptions {
            let (links, is_up) = (links.clone(), is_up.clone());
            thread::spawn(move || {
                loop {
                    thread::sleep(period);
                    *is_up.lock().unwrap() = false;
                    let down =
                        |link: &Arc<RemoteLink>| link.event(WireEvent::Down("a test".to_owned()));
                    if !links.iter().all(down) {
                        return;
                    }
                    thread::sleep(period / 4);
                    *is_up.lock().unwrap() = true;
                    for link in &links {
                        link.event(WireEvent::Up);
                    }
                }
            });
        }
        let [one, other] = links;
        for ((index, end), link) in self.ends.into_iter().enumerate().zip([other, one]) {
            let (is_up, mut rng) = (is_up.clone(), Rng::with_seed(seed + index as u64));
            thread::spawn(move || deliver(&end, &link, &is_up, faults, &mut rng));
        }
    }
}

fn deliver(
    end: &mpsc::Receiver<(u16, Datagram)>,
    link: &RemoteLink,
    is_up: &Mutex<bool>,
    faults: Faults,
    rng: &mut Rng,
) {
    let mut delayed: Vec<(Instant, u16, Datagram)> = Vec::new();
    loop {
        let next = end.recv_timeout(Duration::from_millis(1));
        let now = Instant::now();
        let mut due: Vec<_> = delayed.extract_if(.., |(at, ..)| *at <= now).collect();
        match next {
            Ok((stream, datagram)) => {
                let mut happens = |thousandths| rng.u32(..1000) < thousandths;
                if happens(faults.repeated) {
                    due.push((now, stream, datagram.clone()));
                }
                if happens(faults.delayed) {
                    let delay = Duration::from_micros(rng.u64(..3000));
                    delayed.push((now + delay, stream, datagram));
                } else if !happens(faults.lost) {
                    due.push((now, stream, datagram));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        if !*is_up.lock().unwrap() {
            delayed.clear();
            continue;
        }
        for (_, stream, datagram) in due {
            let bytes = bytes(&datagram);
            let at_ns = monotonic_ns();
            let len = bytes.len();
            let read = Box::new(move || Received::read(bytes.as_slice(), len, at_ns));
            if !link.event(WireEvent::Arrived { stream, len, read }) {
                return;
            }
        }
    }
}

fn bytes(datagram: &Datagram) -> Vec<u8> {
    let mut message = datagram.message.as_slice().to_vec();
    if let Some(at) = datagram.sent_at {
        message[at..at + 8].copy_from_slice(&monotonic_ns().to_le_bytes());
    }
    [&datagram.head, message.as_slice(), datagram.bulk.as_slice()].concat()
}
