//! Packets and their pool under every order of threads that chance finds.

use shuttle::{
    check_pct, check_random,
    sync::mpsc::{Receiver, channel},
    thread,
};

use super::*;
use crate::{Payload, threading::step};

/// A number twice: one that changes while it is held is seen.
#[derive(Clone, Default)]
struct Twice(u64, u64);

impl Payload for Twice {
    const TYPE: &'static str = "model/Twice";
}

fn seal(mut loan: Loan<Twice>, number: u64) -> Packet {
    loan.0 = number;
    step();
    loan.1 = number;
    loan.into_packet(Header { sequence: number, ..Header::default() })
}

fn look(packet: &Packet) {
    let number = packet.header.sequence;
    for _ in 0..2 {
        let value = packet.get::<Twice>().expect("of its type");
        assert_eq!((value.0, value.1), (number, number));
        step();
    }
}

/// Looks at what comes, changes every other value, and sends what it made through the pool again.
fn hold(packets: &Receiver<Packet>, pool: &Pool) {
    while let Ok(packet) = packets.recv() {
        look(&packet);
        let number = packet.header.sequence;
        if number % 2 == 0 {
            let loan = packet.into_loan::<Twice>(Some(pool)).expect("of its type");
            assert_eq!((loan.0, loan.1), (number, number), "a copy is of the value");
            look(&seal(loan, 100 + number));
        }
    }
}

/// One thread sends each packet to two others; all three take values out of one pool.
fn share() {
    let pool = Pool::new(2);
    let (first, firsts) = channel();
    let (second, seconds) = channel();
    let holders = [firsts, seconds].map(|packets| {
        let pool = pool.clone();
        thread::spawn(move || hold(&packets, &pool))
    });
    for number in 0..4 {
        let packet = seal(pool.loan(), number);
        first.send(packet.clone()).expect("the holder lives");
        second.send(packet).expect("the holder lives");
    }
    drop((first, second));
    for holder in holders {
        holder.join().expect("no holder panics");
    }
}

#[test]
fn model_no_value_changes_while_it_is_held() {
    check_random(share, 20_000);
    check_pct(share, 5_000, 3);
}

/// Every value comes back to the pool once, however its holders let go.
fn come_home() {
    let pool = Pool::new(8);
    let packet = seal(pool.loan(), 1);
    let others: Vec<_> = (0..3)
        .map(|_| {
            let packet = packet.clone();
            thread::spawn(move || look(&packet))
        })
        .collect();
    drop(packet);
    for other in others {
        other.join().expect("no holder panics");
    }
    assert_eq!(pool.free(), 1);
    drop(pool.loan::<Twice>());
    assert_eq!(pool.free(), 1, "the value was free");
}

#[test]
fn model_a_value_comes_home_once() {
    check_random(come_home, 20_000);
}
