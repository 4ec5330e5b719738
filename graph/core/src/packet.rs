//! Packets, loans and pools, and the interface of their values.

use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Weak, atomic::Ordering},
};

use crossbeam::queue::ArrayQueue;
use serde::{Serialize, Serializer};

use crate::{CreditGuard, Timestamp, threading::AtomicUsize};

mod cell;
#[cfg(all(test, shuttle))]
mod interleavings;

use cell::{Idle, Shared, Unique};

/// Metadata of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Capture time of the first sample, row or event of the value.
    pub at: Timestamp,
    /// Sequence number in its stream, from zero, without gaps at the sender.
    pub sequence: u64,
    /// Epoch in which the packet, or its ancestor, reached the first node that can be interrupted;
    /// zero before that. Each interrupt starts an epoch and makes packets of earlier ones obsolete.
    pub epoch: u32,
    /// Number of restarts of its sender.
    pub restarts: u32,
    /// Trace id: the packet of a source from which it derives; zero for none.
    pub trace: u64,
    /// Real time at which that packet left its source, in nanoseconds since the session start.
    pub entered_ns: u64,
    /// Model time spent on it since then, in nanoseconds.
    pub model_ns: u64,
}

impl Header {
    /// Header that derived packets inherit.
    ///
    /// Copied field by field: a wide read right after narrow writes would stall on store forwarding.
    #[inline]
    pub fn inherited(&self) -> Self {
        let Self { at, epoch, trace, entered_ns, model_ns, .. } = *self;
        Self { at, epoch, trace, entered_ns, model_ns, ..Self::default() }
    }
}

/// A payload of an unknown type.
pub trait AnyPayload: Any + Send + Sync {
    /// See [`Payload::ty`](crate::Payload::ty).
    fn type_name(&self) -> &str;

    /// See [`Payload::fields`](crate::Payload::fields).
    fn fields(&self) -> Vec<(&'static str, Field)>;

    /// See [`Payload::bulk_bytes`](crate::Payload::bulk_bytes).
    fn bulk_bytes(&self) -> usize;

    /// See [`Payload::release_foreign`](crate::Payload::release_foreign).
    fn release_foreign(&mut self);

    /// See [`Payload::interpolate`](crate::Payload::interpolate); `None` when `later` is of another
    /// type, or the type cannot be interpolated.
    fn interpolated(
        &self,
        later: &dyn AnyPayload,
        share: f64,
        pool: &Pool,
        header: Header,
    ) -> Option<Packet>;
}

/// One named part of a payload, for logs.
///
/// It is serialized as its value. A number that is single-precision is serialized as `f32`, which
/// has fewer digits in text formats.
///
/// ```
/// use afferent_graph::Field;
///
/// let fields = [Field::Number(0.97_f32.into()), Field::Number(0.97), Field::Text("on".into())];
/// assert_eq!(serde_json::to_string(&fields).unwrap(), r#"[0.97,0.97,"on"]"#);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// A text.
    Text(String),
    /// A number; the name of the field carries the unit.
    Number(f64),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) if f64::from(*number as f32) == *number => {
                serializer.serialize_f32(*number as f32)
            }
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Bool(value) => serializer.serialize_bool(*value),
        }
    }
}

/// A shared, immutable value with its header. Cloning does not copy the value.
///
/// The default packet holds no value.
#[derive(Default)]
pub struct Packet {
    /// Metadata.
    pub header: Header,
    /// Credit of an edge with an in-flight limit; `None` without one.
    pub credit: Option<CreditGuard>,
    /// Present until the value is taken or the packet is dropped.
    cell: Option<Shared>,
}

/// Pool of the values of one stream: cells whose packets were dropped, ready for new values.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Cells>);

/// Free cells of a pool.
struct Cells {
    free: ArrayQueue<Idle>,
    allocated: AtomicUsize,
    copied: AtomicUsize,
}

/// A value under construction, with a single holder.
///
/// It comes from a pool and may hold data of an earlier packet. If it is not sent, it returns to
/// the pool.
pub struct Loan<T: AnyPayload> {
    /// Present until the loan is sealed or dropped.
    cell: Option<Unique<T>>,
}

impl Pool {
    /// Pool that keeps at most `capacity` unused values.
    pub fn new(capacity: usize) -> Self {
        let free = ArrayQueue::new(capacity.max(1));
        let (allocated, copied) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Cells { free, allocated, copied }))
    }

    /// Largest number of unused values that it keeps.
    pub fn capacity(&self) -> usize {
        self.0.free.capacity()
    }

    /// Number of values that it has allocated.
    pub fn allocated(&self) -> usize {
        self.0.allocated.load(Ordering::Relaxed)
    }

    /// Number of values that were copied into this pool, because a node changed a value that another
    /// one held too.
    pub fn copied(&self) -> usize {
        self.0.copied.load(Ordering::Relaxed)
    }

    /// Number of unused values.
    pub fn free(&self) -> usize {
        self.0.free.len()
    }

    /// Value to fill: a returned one, or a new one.
    pub fn loan<T: AnyPayload + Default>(&self) -> Loan<T> {
        while let Some(idle) = self.0.free.pop() {
            if let Some(cell) = idle.into_unique() {
                return Loan { cell: Some(cell) };
            }
        }
        self.0.allocated.fetch_add(1, Ordering::Relaxed);
        Loan::of(T::default(), Arc::downgrade(&self.0))
    }
}

impl<T: AnyPayload> Loan<T> {
    /// Value without a pool.
    pub fn new(value: T) -> Self {
        Self::of(value, Weak::new())
    }

    fn of(value: T, pool: Weak<Cells>) -> Self {
        Self { cell: Some(Unique::new(value, pool)) }
    }

    /// Seals the value into a packet. It does not change any more.
    #[inline]
    pub fn into_packet(self, header: Header) -> Packet {
        let mut packet = Packet { header, credit: None, cell: None };
        self.seal(&mut packet);
        packet
    }

    /// Seals the value into a packet that holds none.
    #[inline]
    pub(crate) fn seal(mut self, packet: &mut Packet) {
        packet.cell = self.cell.take().map(Unique::share);
    }
}

impl<T: AnyPayload> Deref for Loan<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.cell.as_ref().expect(UNSEALED)
    }
}

impl<T: AnyPayload> DerefMut for Loan<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.cell.as_mut().expect(UNSEALED)
    }
}

/// Invariant of a loan: sealing and dropping consume it.
const UNSEALED: &str = "a loan has a value until it is sealed or dropped";

impl<T: AnyPayload> Drop for Loan<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            return_to_pool(cell.into_idle());
        }
    }
}

impl Packet {
    /// Packet with `value`, without a pool.
    pub fn new<T: AnyPayload>(value: T, header: Header) -> Self {
        Loan::new(value).into_packet(header)
    }

    /// The value, if it is a `T`.
    #[inline]
    pub fn get<T: AnyPayload>(&self) -> Option<&T> {
        self.cell.as_ref()?.get()
    }

    /// The value; `None` after it was taken.
    #[inline]
    pub fn payload(&self) -> Option<&dyn AnyPayload> {
        self.cell.as_ref().map(Shared::payload)
    }

    /// Mutable value, if it is a `T`: in place for the last holder, otherwise a copy in a loan of
    /// `pool`.
    pub fn into_loan<T: AnyPayload + Default + Clone>(
        mut self,
        pool: Option<&Pool>,
    ) -> Option<Loan<T>> {
        self.take(|| pool)
    }

    /// As [`Packet::into_loan`]; the header stays.
    #[inline]
    pub(crate) fn take<'p, T: AnyPayload + Default + Clone>(
        &mut self,
        pool: impl FnOnce() -> Option<&'p Pool>,
    ) -> Option<Loan<T>> {
        match self.cell.take()?.into_unique() {
            Ok(cell) => Some(Loan { cell: Some(cell) }),
            Err(cell) => self.copy(cell, pool()),
        }
    }

    /// Copies the value in `cell`, which this packet has held, if it is a `T`.
    #[cold]
    fn copy<T: AnyPayload + Default + Clone>(
        &mut self,
        cell: Shared,
        pool: Option<&Pool>,
    ) -> Option<Loan<T>> {
        let value = self.cell.insert(cell).get::<T>()?;
        if let Some(pool) = pool {
            pool.0.copied.fetch_add(1, Ordering::Relaxed);
        }
        let mut copy = pool.map_or_else(|| Loan::new(T::default()), Pool::loan);
        copy.clone_from(value);
        self.empty();
        Some(copy)
    }

    /// Clone for another edge. It holds the same credit.
    pub fn share(&self) -> Self {
        let mut shared = self.clone();
        shared.credit.clone_from(&self.credit);
        shared
    }

    /// Releases the value and the credit; the header stays.
    #[inline]
    pub fn empty(&mut self) {
        if self.credit.is_some() {
            self.credit = None;
        }
        if let Some(cell) = self.cell.take() {
            release(cell);
        }
    }
}

impl Clone for Packet {
    /// The same value and header, without the credit: a node may keep a clone.
    #[inline]
    fn clone(&self) -> Self {
        Self { header: self.header, credit: None, cell: self.cell.clone() }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        self.empty();
    }
}

fn release(cell: Shared) {
    if let Some(idle) = cell.release() {
        return_to_pool(idle);
    }
}

/// Returns a cell without holders to its pool.
fn return_to_pool(mut idle: Idle) {
    if let Some(pool) = idle.pool().upgrade() {
        idle.release_foreign();
        // If the pool is full, the value is freed.
        drop(pool.free.push(idle));
    }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} free", self.free.len(), self.allocated.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.payload().map_or("nothing", AnyPayload::type_name);
        write!(f, "Packet({name} at {})", self.header.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;

    #[derive(Clone, Default)]
    struct Bytes(Vec<u8>);

    impl Payload for Bytes {
        const TYPE: &'static str = "test/Bytes";
    }

    /// A value that borrows memory.
    #[derive(Clone, Default)]
    struct Borrowed(Option<Arc<()>>);

    impl Payload for Borrowed {
        const TYPE: &'static str = "test/Borrowed";

        fn release_foreign(&mut self) {
            self.0 = None;
        }
    }

    fn packet(pool: &Pool) -> (Packet, *const u8) {
        let mut loan = pool.loan::<Bytes>();
        loan.0.resize(16, 1);
        let address = loan.0.as_ptr();
        (loan.into_packet(Header::default()), address)
    }

    #[test]
    fn the_last_holder_changes_in_place() {
        let pool = Pool::new(4);
        let (packet, address) = packet(&pool);
        assert_eq!(packet.into_loan::<Bytes>(Some(&pool)).unwrap().0.as_ptr(), address);
    }

    #[test]
    fn a_shared_packet_is_copied_on_write() {
        let pool = Pool::new(4);
        let (packet, address) = packet(&pool);
        let other = packet.clone();
        let mut loan = packet.into_loan::<Bytes>(Some(&pool)).unwrap();
        loan.0[0] = 9;
        assert_ne!(loan.0.as_ptr(), address);
        assert_eq!(other.get::<Bytes>().unwrap().0[0], 1);
        assert_eq!(pool.copied(), 1);
        other.into_loan::<Bytes>(Some(&pool)).unwrap();
        assert_eq!(pool.copied(), 1, "the last holder has it in place");
    }

    #[test]
    fn memory_returns_to_the_pool() {
        let pool = Pool::new(4);
        let (first, address) = packet(&pool);
        let second = first.clone();
        drop(first);
        assert_ne!(packet(&pool).1, address, "it is still held");
        drop(second);
        let again: Vec<_> = (0..2).map(|_| packet(&pool)).collect();
        assert!(again.iter().any(|(_, a)| *a == address));
    }

    #[test]
    fn a_value_in_a_pool_borrows_no_memory() {
        let (pool, memory) = (Pool::new(4), Arc::new(()));
        let mut sent = pool.loan::<Borrowed>();
        sent.0 = Some(memory.clone());
        let packet = sent.into_packet(Header::default());
        let shared = packet.clone();
        drop(packet);
        assert_eq!(Arc::strong_count(&memory), 2, "it is still held");
        let mut unsent = pool.loan::<Borrowed>();
        unsent.0 = Some(memory.clone());
        drop((shared, unsent));
        assert_eq!((Arc::strong_count(&memory), pool.free()), (1, 2));
    }

    #[test]
    fn a_packet_outlives_its_pool() {
        let pool = Pool::new(1);
        let (packet, _) = packet(&pool);
        drop(pool);
        assert_eq!(packet.get::<Bytes>().unwrap().0.len(), 16);
    }

    #[test]
    fn the_wrong_type_is_refused() {
        let pool = Pool::new(1);
        let (packet, _) = packet(&pool);
        assert!(packet.get::<crate::test_payload::Sample>().is_none());
        assert!(packet.into_loan::<crate::test_payload::Sample>(None).is_none());
    }
}
