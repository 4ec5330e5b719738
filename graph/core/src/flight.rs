//! What is still under way of a packet, and of what was made of it.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use crate::threading::AtomicUsize;

#[cfg(all(test, shuttle))]
mod interleavings;

/// One of the packets that an edge allows to be under way behind it.
///
/// The packet that takes the seat holds a [`Flight`], and so does what nodes make of it. The seat
/// is free again when all have been worked on or dropped.
pub struct Seat(Arc<Shared>);

/// Keeps a seat taken; clones keep the same one.
pub struct Flight(Arc<Shared>);

struct Shared {
    flights: AtomicUsize,
    landed: Box<dyn Fn() + Send + Sync>,
}

impl Seat {
    /// A free seat. `landed` is called by whoever makes it free again.
    pub fn new(landed: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { flights: AtomicUsize::new(0), landed: Box::new(landed) }))
    }

    /// Whether nobody has it.
    pub fn is_free(&self) -> bool {
        self.0.flights.load(Ordering::Acquire) == 0
    }

    /// Takes the seat, if it is free.
    pub fn take(&self) -> Option<Flight> {
        let taken = self.0.flights.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok().then(|| Flight(self.0.clone()))
    }
}

impl Clone for Flight {
    fn clone(&self) -> Self {
        self.0.flights.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.flights.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.0.landed)();
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({} flights)", self.0.flights.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_free_when_the_last_flight_has_landed() {
        let landings = Arc::new(AtomicUsize::new(0));
        let count = landings.clone();
        let seat = Seat::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let flight = seat.take().unwrap();
        assert!(seat.take().is_none() && !seat.is_free());
        let other = flight.clone();
        drop(flight);
        assert!(!seat.is_free());
        drop(other);
        assert!(seat.is_free() && landings.load(Ordering::Relaxed) == 1);
        assert!(seat.take().is_some());
    }
}
