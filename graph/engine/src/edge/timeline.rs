//! Completes the headers of sent packets and validates their timestamps.

use std::time::Duration;

use afferent_graph::{Outbox, Packet, Timestamp};

use crate::metrics::NodeStats;
use afferent_spec::OnTimeFault;

/// Largest jump of a stream ahead of the clock and of the packet that it derives from.
const MAX_JUMP_AHEAD: Duration = Duration::from_secs(10);
const AHEAD_NS: u64 = MAX_JUMP_AHEAD.as_nanos() as u64;

/// After this many packets in a row that are too far ahead, the jump is accepted: the clock of the
/// sender was set.
const ACCEPTED_AFTER: u32 = 4;

/// Without a clock, no timestamp is too far ahead.
const NO_CLOCK: Timestamp = Timestamp(i64::MAX);

/// Origin of the packets of a call.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    /// Session time on the real clock; `None` on the virtual clock, where time follows the packets.
    pub(crate) now: Option<Timestamp>,
    /// Timestamp of the packet that they derive from.
    pub(crate) of: Timestamp,
    pub(crate) by_source: bool,
}

/// State of the timestamp validation of a stream, needed only for timestamps that go back or jump
/// ahead.
#[derive(Debug, Default)]
pub(crate) struct TimestampMonitor {
    /// Offset of the sender's clock ahead of the session clock.
    ahead: Duration,
    /// Last packet that was too far ahead: its timestamp, the number of such packets in a row, and
    /// the sequence number after it.
    doubted: Option<(Timestamp, u32, u64)>,
    /// After an interrupt, the timestamp from which the stream may go back once.
    forgiven: Option<Timestamp>,
}

impl TimestampMonitor {
    /// Allows the stream, whose last timestamp was `last_at`, to go back once.
    fn forgive(&mut self, last_at: Timestamp) {
        self.forgiven = Some(last_at);
    }

    fn set(&mut self, at: Timestamp, made: Made) {
        self.doubted = None;
        self.ahead = made.now.map_or(Duration::ZERO, |now| at.since(now));
    }

    fn is_ahead(&self, at: Timestamp, made: Made) -> bool {
        let clock = made.now.map_or(NO_CLOCK, |now| now + self.ahead);
        at > clock.max(made.of) + MAX_JUMP_AHEAD
    }

    /// Counts a packet that is too far ahead, with sequence number `sequence`. Returns true if the
    /// jump is accepted. `keeps_sequence` says that a rejected packet is still sent.
    fn accepts_jump(&mut self, at: Timestamp, sequence: u64, keeps_sequence: bool) -> bool {
        let doubts = match self.doubted {
            Some((before, doubts, next)) if next == sequence && at >= before => doubts + 1,
            _ => 1,
        };
        let next = sequence + u64::from(keeps_sequence);
        self.doubted = Some((at, doubts, next));
        doubts >= ACCEPTED_AFTER
    }
}

/// Position of an output in its stream. Fields that every packet needs come first.
#[repr(C)]
pub(crate) struct Timeline {
    /// Sequence number of the next packet.
    next: u64,
    /// Timestamp of the last packet. Later packets are not earlier; equal timestamps are allowed.
    last_at: Timestamp,
    /// Number of restarts of time of the node at the last packet.
    rewinds: u32,
    /// Boxed, because it is rarely needed.
    monitor: Box<TimestampMonitor>,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { next: 0, last_at: Timestamp(i64::MIN), rewinds: 0, monitor: Box::default() }
    }

    /// Restarts the stream: any timestamp may follow.
    pub(crate) fn restart_time(&mut self) {
        self.last_at = Timestamp(i64::MIN);
    }

    /// Allows the stream to go back in time once.
    pub(crate) fn forgive(&mut self) {
        self.monitor.forgive(self.last_at);
    }
}

/// Completes the headers of the packets in the outbox and drops those with wrong timestamps. `made`
/// is evaluated only if a timestamp goes back or jumps ahead.
#[inline(always)]
pub(crate) fn stamp_all(
    outbox: &mut Outbox,
    outputs: &mut [impl AsMut<Timeline>],
    stats: &mut NodeStats,
    rewinds: &mut u32,
    on_time_fault: &OnTimeFault,
    made: impl Fn() -> Made,
) {
    if let Some((output, packet)) = outbox.only() {
        if !stamp(outputs[output].as_mut(), packet, stats, rewinds, on_time_fault, made) {
            outbox.drop_only();
        }
    } else if !outbox.is_empty() {
        stamp_several(outbox, outputs, stats, rewinds, *on_time_fault, made());
    }
}

#[cold]
fn stamp_several(
    outbox: &mut Outbox,
    outputs: &mut [impl AsMut<Timeline>],
    stats: &mut NodeStats,
    rewinds: &mut u32,
    on_time_fault: OnTimeFault,
    made: Made,
) {
    outbox.retain(|output, packet| {
        stamp(outputs[output].as_mut(), packet, stats, rewinds, &on_time_fault, || made)
    });
}

/// Completes the header of a packet of `output`; false if it must be dropped.
#[inline(always)]
fn stamp(
    output: &mut Timeline,
    packet: &mut Packet,
    stats: &mut NodeStats,
    rewinds: &mut u32,
    on_time_fault: &OnTimeFault,
    made: impl Fn() -> Made,
) -> bool {
    let header = &mut packet.header;
    // One comparison for both faults: a negative difference is large as an unsigned number.
    if header.at.0.wrapping_sub(output.last_at.0).cast_unsigned() > AHEAD_NS {
        let (at, faults) = (header.at, &mut stats.timestamp_faults);
        match correct(output, at, faults, rewinds, *on_time_fault, made()) {
            Some(at) => header.at = at,
            None => return false,
        }
    }
    output.last_at = header.at;
    header.sequence = output.next;
    header.restarts = stats.restarts.wrapping_add(*rewinds);
    output.rewinds = *rewinds;
    output.next += 1;
    stats.packets_out += 1;
    true
}

/// Corrects a timestamp that goes back or jumps ahead; `None` if the packet is dropped.
#[cold]
fn correct(
    output: &mut Timeline,
    at: Timestamp,
    faults: &mut u64,
    rewinds: &mut u32,
    on_time_fault: OnTimeFault,
    made: Made,
) -> Option<Timestamp> {
    let Timeline { monitor, last_at, next, rewinds: before, .. } = output;
    let (is_first, goes_back) = (last_at.0 == i64::MIN, at < *last_at);
    let restarts_time = if goes_back {
        let is_forgiven = monitor.forgiven.take() == Some(*last_at);
        // If the first two packets of a source contradict each other, the one ahead is wrong.
        let contradicts = *next == 1 && last_at.since(at) > MAX_JUMP_AHEAD;
        *faults += u64::from(!is_forgiven);
        is_forgiven || contradicts
    } else {
        // The first packet of a source defines the offset of its clock.
        if is_first && made.by_source || !monitor.is_ahead(at, made) {
            if is_first {
                monitor.set(at, made);
            }
            return Some(at);
        }
        // A clamped packet keeps its sequence number.
        let keeps_sequence = on_time_fault == OnTimeFault::Clamp && !is_first;
        if monitor.accepts_jump(at, *next, keeps_sequence) {
            monitor.set(at, made);
            return Some(at);
        }
        *faults += 1;
        false
    };
    match on_time_fault {
        OnTimeFault::Drop if !restarts_time => None,
        // There is no packet before it to clamp to.
        OnTimeFault::Clamp if is_first => None,
        OnTimeFault::Clamp if !restarts_time => Some(*last_at),
        _ => {
            // If another output of the call has restarted, this one restarts with it.
            *rewinds += u32::from(*before == *rewinds);
            monitor.set(at, made);
            Some(at)
        }
    }
}
