//! Packets that a node sent and the engine has not delivered yet.

use std::mem;

use crate::Packet;

/// Packets that a node sent and the engine has not delivered yet, in the order of sending, each with
/// the index of its output.
///
/// Slots are reused. A packet is written into its slot and stays there until it is delivered.
#[derive(Debug, Default)]
pub struct Outbox {
    slots: Vec<(usize, Packet)>,
    /// First slot in use; slots from `first` up to `end` are in use, the others hold empty packets.
    first: usize,
    end: usize,
}

impl Outbox {
    /// Empty outbox with `slots` slots. It grows if more are needed.
    pub fn new(slots: usize) -> Self {
        let slots = (0..slots).map(|_| (0, Packet::default())).collect();
        Self { slots, first: 0, end: 0 }
    }

    /// Appends an empty packet for the output at index `output`; the caller fills it.
    #[inline]
    pub(crate) fn slot(&mut self, output: usize) -> &mut Packet {
        let end = self.end;
        self.end += 1;
        let (index, packet) = match end < self.slots.len() {
            true => &mut self.slots[end],
            false => self.grow(),
        };
        *index = output;
        packet
    }

    /// Appends a slot.
    #[cold]
    fn grow(&mut self) -> &mut (usize, Packet) {
        self.slots.push_mut((0, Packet::default()))
    }

    /// Appends `packet` for the output at index `output`.
    pub fn push(&mut self, output: usize, packet: Packet) {
        *self.slot(output) = packet;
    }

    /// Removes the first packet.
    pub fn pop(&mut self) -> Option<(usize, Packet)> {
        let (output, packet) = self.slots[..self.end].get_mut(self.first)?;
        let taken = (*output, mem::take(packet));
        self.first += 1;
        if self.is_empty() {
            self.reuse();
        }
        Some(taken)
    }

    /// Puts back the packet that was removed last.
    pub fn put_back(&mut self, output: usize, packet: Packet) {
        match self.first.checked_sub(1) {
            Some(first) => {
                self.first = first;
                self.slots[first] = (output, packet);
            }
            // It was the only packet, and its slot is free again.
            None if self.is_empty() => self.push(output, packet),
            None => {
                self.slots.insert(0, (output, packet));
                self.end += 1;
            }
        }
    }

    /// The packet and its output, if it is the only one.
    #[inline]
    pub fn only(&mut self) -> Option<(usize, &mut Packet)> {
        let (output, packet) = self.slots.get_mut(self.first)?;
        (self.end == self.first + 1).then_some((*output, packet))
    }

    /// Packets with their outputs, in the order of sending.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Packet)> {
        let slots = self.slots.get(self.first..self.end).unwrap_or_default();
        slots.iter().map(|(output, packet)| (*output, packet))
    }

    /// As [`Outbox::iter`], with mutable packets.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Packet)> {
        let slots = self.slots.get_mut(self.first..self.end).unwrap_or_default();
        slots.iter_mut().map(|(output, packet)| (*output, packet))
    }

    /// Calls `keep` on each packet and drops those for which it returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(usize, &mut Packet) -> bool) {
        let mut kept = self.first;
        for index in self.first..self.end {
            let (output, packet) = &mut self.slots[index];
            if keep(*output, packet) {
                self.slots.swap(kept, index);
                kept += 1;
            } else {
                packet.empty();
            }
        }
        self.end = kept;
        if self.is_empty() {
            self.reuse();
        }
    }

    /// Drops the packet that [`Outbox::only`] returned.
    #[inline]
    pub fn drop_only(&mut self) {
        if let Some((_, packet)) = self.slots.get_mut(self.first) {
            packet.empty();
        }
        self.reuse();
    }

    /// Resets the slots, as [`Outbox::drop_only`] does, after the only packet has been emptied.
    #[inline]
    pub fn reuse(&mut self) {
        (self.first, self.end) = (0, 0);
    }

    /// Drops every packet.
    #[inline]
    pub fn clear(&mut self) {
        self.iter_mut().for_each(|(_, packet)| packet.empty());
        self.reuse();
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// True if there are no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, test_payload::Sample};

    fn packet(sequence: u64) -> Packet {
        Packet::new(Sample::default(), Header { sequence, ..Header::default() })
    }

    fn sequences(outbox: &Outbox) -> Vec<(usize, u64)> {
        outbox.iter().map(|(output, packet)| (output, packet.header.sequence)).collect()
    }

    #[test]
    fn first_in_first_out() {
        let mut outbox = Outbox::new(2);
        (0..5).for_each(|number| outbox.push(number, packet(number as u64)));
        assert_eq!((outbox.len(), outbox.only().is_none()), (5, true));
        for number in 0..4 {
            let (output, packet) = outbox.pop().unwrap();
            assert_eq!((output, packet.header.sequence), (number, number as u64));
        }
        assert_eq!(outbox.only().unwrap().1.header.sequence, 4);
        let (output, last) = outbox.pop().unwrap();
        assert!(outbox.pop().is_none() && outbox.is_empty());
        outbox.put_back(output, last);
        outbox.push(5, packet(5));
        assert_eq!(sequences(&outbox), [(4, 4), (5, 5)]);
    }

    #[test]
    fn a_refused_packet_returns_to_the_front() {
        let mut outbox = Outbox::new(0);
        (0..3).for_each(|number| outbox.push(0, packet(number)));
        for _ in 0..3 {
            let (output, first) = outbox.pop().unwrap();
            outbox.put_back(output, first);
        }
        assert_eq!(sequences(&outbox), [(0, 0), (0, 1), (0, 2)]);
    }

    #[test]
    fn a_packet_refused_many_times_needs_one_slot() {
        let mut outbox = Outbox::new(1);
        outbox.push(2, packet(5));
        for _ in 0..100 {
            let (output, refused) = outbox.pop().unwrap();
            outbox.put_back(output, refused);
        }
        assert_eq!((outbox.slots.len(), sequences(&outbox)), (1, vec![(2, 5)]));
    }

    #[test]
    fn retain_drops_the_other_packets() {
        let mut outbox = Outbox::new(4);
        (0..6).for_each(|number| outbox.push(number, packet(number as u64)));
        outbox.pop();
        outbox.retain(|output, packet| {
            packet.header.epoch = 7;
            output % 2 == 1
        });
        assert_eq!(sequences(&outbox), [(1, 1), (3, 3), (5, 5)]);
        assert!(outbox.iter().all(|(_, packet)| packet.header.epoch == 7));
        outbox.clear();
        assert!(outbox.is_empty() && outbox.slots.iter().all(|(_, p)| p.payload().is_none()));
        outbox.push(1, packet(9));
        outbox.drop_only();
        assert!(outbox.is_empty() && outbox.slots.iter().all(|(_, p)| p.payload().is_none()));
        outbox.push(2, packet(8));
        assert_eq!(sequences(&outbox), [(2, 8)]);
    }
}
