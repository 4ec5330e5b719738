//! Credits under the thread interleavings of the model checker.

use shuttle::{
    check_pct, check_random,
    sync::{Mutex, mpsc::channel},
    thread,
};

use super::*;
use crate::threading::step;

const SEATS: usize = 2;
const PACKETS: usize = 5;

/// Number of packets in flight.
type Aboard = Arc<Mutex<usize>>;

/// A derived packet with its credit.
struct Made {
    aboard: Arc<Passenger>,
    credit: CreditGuard,
}

/// A packet; dropped with the last packet derived from it.
struct Passenger(Aboard);

impl Drop for Passenger {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

/// One thread lets packets in, each with a free credit, and waits for a credit as a receiver does;
/// two others handle them and the packets derived from them.
fn fly() {
    let (ring, rung) = channel();
    let ring = Arc::new(Mutex::new(ring));
    let landings = Arc::new(Mutex::new(0));
    let credits: Vec<_> = (0..SEATS)
        .map(|_| {
            let (ring, landings) = (ring.clone(), landings.clone());
            Credit::new(move || {
                *landings.lock().unwrap() += 1;
                // At the end there is no waiting receiver.
                let _ = ring.lock().unwrap().send(());
            })
        })
        .collect();
    let aboard = Aboard::default();
    let (workers, threads): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (send, packets) = channel::<Made>();
            let work = move || {
                for Made { aboard, credit } in packets {
                    let made = Made { aboard, credit: credit.clone() };
                    drop(credit);
                    step();
                    drop(made);
                }
            };
            (send, thread::spawn(work))
        })
        .unzip();
    for packet in 0..PACKETS {
        let credit = loop {
            match credits.iter().find_map(Credit::take) {
                Some(credit) => break credit,
                // A credit that was freed before the check is still announced.
                None => rung.recv().expect("credits ring"),
            }
        };
        *aboard.lock().unwrap() += 1;
        assert!(*aboard.lock().unwrap() <= SEATS);
        let passenger = Arc::new(Passenger(aboard.clone()));
        for worker in workers.iter().take(1 + packet % 2) {
            let (aboard, credit) = (passenger.clone(), credit.clone());
            worker.send(Made { aboard, credit }).expect("it works");
        }
        drop((passenger, credit));
    }
    drop(workers);
    threads.into_iter().for_each(|thread| thread.join().expect("no worker panics"));
    assert!(credits.iter().all(Credit::is_free));
    assert_eq!(*landings.lock().unwrap(), PACKETS, "each credit was left once for each packet");
}

#[test]
fn model_a_credit_is_freed_once_and_a_waiting_thread_gets_it() {
    check_random(fly, 10_000);
    check_pct(fly, 5_000, 3);
}
