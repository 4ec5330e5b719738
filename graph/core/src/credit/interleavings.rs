//! Seats and what is under way in them under every order of threads that chance finds.

use shuttle::{
    check_pct, check_random,
    sync::{Mutex, mpsc::channel},
    thread,
};

use super::*;
use crate::threading::step;

const SEATS: usize = 2;
const PACKETS: usize = 5;

/// How many packets are under way.
type Aboard = Arc<Mutex<usize>>;

/// What is made of a packet, with the credit of it.
struct Made {
    aboard: Arc<Passenger>,
    credit: CreditGuard,
}

/// A packet; dropped with the last that was made of it.
struct Passenger(Aboard);

impl Drop for Passenger {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

/// One thread lets packets in, each into a free credit, and waits for one where there is none, as a
/// receiver does; two others work on them and on what was made of them.
fn fly() {
    let (ring, rung) = channel();
    let ring = Arc::new(Mutex::new(ring));
    let landings = Arc::new(Mutex::new(0));
    let credits: Vec<_> = (0..SEATS)
        .map(|_| {
            let (ring, landings) = (ring.clone(), landings.clone());
            Credit::new(move || {
                *landings.lock().unwrap() += 1;
                // Whoever would wait is gone at the end.
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
                // A landing that came before the look is still heard of.
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
fn model_a_seat_is_left_once_and_whoever_waits_gets_it() {
    check_random(fly, 10_000);
    check_pct(fly, 5_000, 3);
}
