//! Edges, wakes, interrupts and virtual time under the thread interleavings of the model checker.
//!
//! The loops are those of a worker without nodes: answer the wake, work until nothing is left,
//! sleep. A lost wake is a deadlock, which the checker reports.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use afferent_graph::{Header, OnFull, Packet, Timestamp};
use afferent_messages::KeywordEvent;
use shuttle::{check_pct, check_random, sync::Barrier};

use crate::{
    EdgeCounts, InterruptHandle,
    clock::lockstep::{Lockstep, Sleep},
    edge::{
        Inlet, RemoteEdge,
        queue::{Queue, Taken},
    },
    run::board::Board,
    run::snapshot::Figures,
    sys::{
        threading::{AtomicBool, Mutex, thread},
        wake::Waker,
    },
};
use afferent_spec::EdgePolicy;

const NOW: Timestamp = Timestamp::ZERO;

fn check(model: fn()) {
    check_random(model, 10_000);
    check_pct(model, 5_000, 3);
}

fn packet(number: u64) -> Packet {
    Packet::new(KeywordEvent::default(), Header { sequence: number, ..Header::default() })
}

/// Waits until every thread can be woken.
fn ready(waker: &Waker, all: &Barrier) {
    waker.belongs_to(thread::current());
    all.wait();
}

/// Sends `count` packets, waiting for space where the policy demands it, then ends the stream.
fn send(edge: &RemoteEdge, waker: &Waker, count: u64) {
    for number in 0..count {
        let mut packet = packet(number);
        loop {
            waker.answer();
            if edge.offer(&mut packet) {
                break;
            }
            waker.sleep(None);
        }
    }
    edge.send(Queue::end);
}

/// Takes packets until all streams have ended; returns their sequence numbers by stream.
fn receive(edges: &[Arc<RemoteEdge>], waker: &Waker) -> Vec<Vec<u64>> {
    let mut inlets: Vec<_> = edges.iter().map(|edge| Inlet::Remote(edge.clone())).collect();
    let mut seen = vec![Vec::new(); edges.len()];
    loop {
        waker.answer();
        let (mut over, mut idle) = (true, true);
        for (inlet, seen) in inlets.iter_mut().zip(&mut seen) {
            let mut packet = Packet::default();
            match inlet.take(NOW, 0, &mut packet).0 {
                Taken::Next(()) => {
                    seen.push(packet.header.sequence);
                    (over, idle) = (false, false);
                }
                Taken::Empty => over = false,
                Taken::Over => {}
            }
        }
        if over {
            return seen;
        }
        if idle {
            waker.sleep(None);
        }
    }
}

/// Two senders of `count` packets to one receiver; returns received packets and counters.
fn exchange(on_full: OnFull, queue: usize, count: u64) -> Vec<(Vec<u64>, EdgeCounts)> {
    let all = Arc::new(Barrier::new(3));
    let receiver = Arc::new(Waker::default());
    let policy = EdgePolicy { on_full, queue, max_age: None };
    let (mut edges, mut senders) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let waker = Arc::new(Waker::default());
        let edge = RemoteEdge::new(Queue::new(policy, None), waker.clone(), receiver.clone());
        edges.push(edge.clone());
        let all = all.clone();
        senders.push(thread::spawn(move || {
            ready(&waker, &all);
            send(&edge, &waker, count);
        }));
    }
    ready(&receiver, &all);
    let seen = receive(&edges, &receiver);
    senders.into_iter().for_each(|sender| sender.join().expect("no sender panics"));
    let counts = edges.into_iter().map(|edge| Inlet::Remote(edge).counts());
    seen.into_iter().zip(counts).collect()
}

#[test]
fn model_no_wake_is_lost_and_no_packet() {
    check(|| {
        for (seen, counts) in exchange(OnFull::Block, 1, 3) {
            assert_eq!((seen, counts.sent, counts.delivered), (vec![0, 1, 2], 3, 3));
        }
    });
}

#[test]
fn model_the_newest_packet_always_comes() {
    check(|| {
        for (on_full, queue) in [(OnFull::Latest, 1), (OnFull::DropOldest, 2)] {
            for (seen, counts) in exchange(on_full, queue, 3) {
                assert!(seen.is_sorted() && seen.last() == Some(&2), "{seen:?}");
                assert_eq!(counts.sent, counts.delivered + counts.dropped_full);
                assert_eq!(
                    (counts.sent, counts.delivered, counts.depth),
                    (3, seen.len() as u64, 0)
                );
            }
        }
    });
}

/// The receiver closes its end while the sender waits for space.
#[test]
fn model_a_closed_edge_lets_its_sender_go() {
    check(|| {
        let (waker, all) = (Arc::new(Waker::default()), Arc::new(Barrier::new(2)));
        let queue =
            Queue::new(EdgePolicy { on_full: OnFull::Block, queue: 1, max_age: None }, None);
        let edge = RemoteEdge::new(queue, waker.clone(), Arc::default());
        let (other, barrier) = (edge.clone(), all.clone());
        let sender = thread::spawn(move || {
            ready(&waker, &barrier);
            send(&other, &waker, 3);
        });
        all.wait();
        let mut inlet = Inlet::Remote(edge);
        drop(inlet.take(NOW, 0, &mut Packet::default()));
        inlet.close();
        sender.join().expect("no sender panics");
        let counts = inlet.counts();
        assert_eq!((counts.sent, counts.delivered + counts.dropped_closed), (3, 3));
    });
}

/// No packet from before an interrupt is delivered after it.
#[test]
fn model_nothing_stale_comes_after_an_interrupt() {
    check(|| {
        let waker = Arc::new(Waker::default());
        let interrupt = InterruptHandle::new(&[true], vec![waker.clone()], false, |_| ());
        let all = Arc::new(Barrier::new(3));
        let policy = EdgePolicy { on_full: OnFull::Block, queue: 2, max_age: None };
        let from = Arc::new(Waker::default());
        let queue = Queue::new(policy, Some(interrupt.clone()));
        let edge = RemoteEdge::new(queue, from.clone(), waker.clone());

        let (outlet, barrier) = (edge.clone(), all.clone());
        let sender = thread::spawn(move || {
            ready(&from, &barrier);
            send(&outlet, &from, 4);
        });
        let (handle, barrier) = (interrupt.clone(), all.clone());
        let done = Arc::new(AtomicBool::new(false));
        let is_done = done.clone();
        let interrupter = thread::spawn(move || {
            barrier.wait();
            handle.interrupt();
            is_done.store(true, Ordering::SeqCst);
        });

        ready(&waker, &all);
        let (mut inlet, mut epoch, mut delivered) = (Inlet::Remote(edge), 1, 0);
        loop {
            waker.answer();
            let after = done.load(Ordering::SeqCst);
            if epoch != interrupt.epoch() {
                epoch = interrupt.answer(0);
                inlet.purge(epoch);
                continue;
            }
            let mut packet = Packet::default();
            match inlet.take(NOW, epoch, &mut packet).0 {
                Taken::Next(()) => {
                    assert!(packet.header.epoch >= epoch, "it is older than what was heard of");
                    assert!(!after || packet.header.epoch == 2, "it is from before the interrupt");
                    delivered += 1;
                }
                Taken::Empty if epoch != interrupt.epoch() => {}
                Taken::Empty => waker.sleep(None),
                Taken::Over => break,
            }
        }
        sender.join().expect("no sender panics");
        interrupter.join().expect("no interrupter panics");
        if epoch != interrupt.epoch() {
            epoch = interrupt.answer(0);
        }
        assert_eq!((epoch, interrupt.flag(0).load(Ordering::SeqCst)), (2, false));
        let counts = inlet.counts();
        assert_eq!((counts.sent, counts.delivered), (4, delivered));
        assert_eq!(counts.sent, counts.delivered + counts.dropped_epoch);
    });
}

/// Streams and progress of one thread on the virtual clock.
struct Stage {
    lockstep: Lockstep,
    wakers: Vec<Arc<Waker>>,
    inboxes: Vec<Mutex<u32>>,
    events: Mutex<Vec<i64>>,
}

impl Stage {
    /// A thread whose source is due every `period`, three times, and sends to the next thread.
    fn play(&self, index: usize, period: i64) {
        let next = (index + 1) % self.wakers.len();
        let (mut due, mut received, mut sent) = (Some(period), 0, 0);
        while due.is_some() || received < 3 {
            self.wakers[index].answer();
            let inbox = std::mem::take(&mut *lock(&self.inboxes[index]));
            if inbox > 0 {
                received += inbox;
                lock(&self.events).push(self.lockstep.now().0);
                continue;
            }
            let now = self.lockstep.now().0;
            if let Some(at) = due.filter(|at| *at <= now) {
                assert_eq!(at, now, "time stops where a source is due");
                lock(&self.events).push(now);
                *lock(&self.inboxes[next]) += 1;
                self.wakers[next].ring();
                sent += 1;
                due = (sent < 3).then_some(at + period);
                continue;
            }
            let why = Sleep { due: due.map(Timestamp), ..Sleep::default() };
            self.lockstep.sleep(index, why, None);
        }
        self.lockstep.leave(index);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> crate::sys::threading::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time waits for every packet in flight, and no thread sleeps forever.
#[test]
fn model_virtual_time_goes_on_and_never_back() {
    check(|| {
        let wakers = vec![Arc::new(Waker::default()), Arc::new(Waker::default())];
        let lockstep = Lockstep::new(wakers.clone(), InterruptHandle::default(), None);
        let inboxes = (0..2).map(|_| Mutex::new(0)).collect();
        let stage = Stage { lockstep, wakers, inboxes, events: Mutex::new(Vec::new()) };
        let (stage, all) = (Arc::new(stage), Arc::new(Barrier::new(2)));
        let threads: Vec<_> = [20, 30]
            .into_iter()
            .enumerate()
            .map(|(index, period)| {
                let (stage, all) = (stage.clone(), all.clone());
                thread::spawn(move || {
                    ready(&stage.wakers[index], &all);
                    stage.play(index, period);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        let events = lock(&stage.events);
        assert!(events.is_sorted(), "{events:?}");
        assert_eq!(events.last(), Some(&90));
    });
}

/// Two threads that answer between their calls and then end.
fn answer(board: &Board, wakers: &[Arc<Waker>; 2], thread: usize, calls: u64) {
    for _ in 0..calls {
        if wakers[thread].answer() && wakers[thread].is_asked() {
            board.tell(thread, Figures::default());
        }
        thread::yield_now();
    }
    let mut last = Figures::default();
    last.last = true;
    board.tell(thread, last);
}

/// A reader gets the figures of all threads, ended ones included, and does not wait forever.
#[test]
fn model_a_reader_gets_figures() {
    check(|| {
        let wakers = [Arc::new(Waker::default()), Arc::new(Waker::default())];
        let board = Arc::new(Board::new(wakers.to_vec()));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let board = board.clone();
                thread::spawn(move || {
                    // A timeout would hide a lost answer.
                    let told = board.ask(Duration::from_secs(3600));
                    assert!(told.iter().all(Option::is_some));
                })
            })
            .collect();
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let (board, wakers) = (board.clone(), wakers.clone());
                thread::spawn(move || answer(&board, &wakers, index, 3))
            })
            .collect();
        for thread in readers.into_iter().chain(threads) {
            thread.join().expect("no thread panics");
        }
    });
}
