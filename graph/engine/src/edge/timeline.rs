//! Completes the headers of what nodes send, and finds packets whose times are wrong.

use std::time::Duration;

use afferent_graph::{Outbox, Packet, Timestamp};

use crate::metrics::NodeStats;
use afferent_spec::OnTimeFault;

/// How far a stream may jump ahead of the clock, and of what its packet is made of.
const AHEAD: Duration = Duration::from_secs(10);
const AHEAD_NS: u64 = AHEAD.as_nanos() as u64;

/// So many packets in a row that are too far ahead are believed: the clock of the sender was set.
const BELIEVED: u32 = 4;

/// No time is ahead of this.
const NO_CLOCK: Timestamp = Timestamp(i64::MAX);

/// When and of what packets are made.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    /// On the real clock; on the virtual one, times follow the packets.
    pub(crate) now: Option<Timestamp>,
    /// The time of what they are made of.
    pub(crate) of: Timestamp,
    pub(crate) by_source: bool,
}

/// What is looked at when a stream leaves its course: back in time, or too far ahead.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// How far its clock is ahead of that of the session.
    ahead: Duration,
    /// The last packet that was too far ahead: its time, how many there were in a row, and the
    /// place in the stream of the packet behind it.
    doubted: Option<(Timestamp, u32, u64)>,
    /// After an interrupt, the time from which it may go back once.
    forgiven: Option<Timestamp>,
}

impl Course {
    /// The stream, whose last packet was at `last_at`, may go back in time once.
    fn forgive(&mut self, last_at: Timestamp) {
        self.forgiven = Some(last_at);
    }

    fn set(&mut self, at: Timestamp, made: Made) {
        self.doubted = None;
        self.ahead = made.now.map_or(Duration::ZERO, |now| at.since(now));
    }

    fn is_ahead(&self, at: Timestamp, made: Made) -> bool {
        let clock = made.now.map_or(NO_CLOCK, |now| now + self.ahead);
        at > clock.max(made.of) + AHEAD
    }

    /// Counts a packet that is too far ahead, the one at `place` of its stream, which it takes or
    /// not if it is wrong; whether it is believed.
    fn believes(&mut self, at: Timestamp, node_index: u64, takes_place: bool) -> bool {
        let doubts = match self.doubted {
            Some((before, doubts, next)) if next == node_index && at >= before => doubts + 1,
            _ => 1,
        };
        let next = node_index + u64::from(takes_place);
        self.doubted = Some((at, doubts, next));
        doubts >= BELIEVED
    }
}

/// Where an output is in its stream. What every packet needs stands together.
#[repr(C)]
pub(crate) struct Timeline {
    /// Sequence number of the next packet.
    next: u64,
    /// Time of the last packet. Nothing earlier may follow; several events may have one time.
    last_at: Timestamp,
    /// How often the streams of the node had begun anew with the last packet.
    rewinds: u32,
    /// Behind a pointer, because it is seldom looked at.
    course: Box<Course>,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { next: 0, last_at: Timestamp(i64::MIN), rewinds: 0, course: Box::default() }
    }

    /// Any time may follow.
    pub(crate) fn begin_anew(&mut self) {
        self.last_at = Timestamp(i64::MIN);
    }

    /// The stream may go back in time once.
    pub(crate) fn forgive(&mut self) {
        self.course.forgive(self.last_at);
    }
}

/// Completes the headers of what is in the outbox, and drops what is older than its stream. What it
/// was `made` of is asked for only where a stream leaves its course.
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

/// Completes the header of a packet that was sent by `output`; whether it can be sent.
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
    // One comparison for both: a time that goes back is far ahead as a number without sign.
    if header.at.0.wrapping_sub(output.last_at.0).cast_unsigned() > AHEAD_NS {
        let (at, faults) = (header.at, &mut stats.timestamp_faults);
        match leave_course(output, at, faults, rewinds, *on_time_fault, made()) {
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

/// The time that a packet gets that is earlier than the one before it or far behind it in time;
/// `None` when it is dropped.
#[cold]
fn leave_course(
    output: &mut Timeline,
    at: Timestamp,
    faults: &mut u64,
    rewinds: &mut u32,
    on_time_fault: OnTimeFault,
    made: Made,
) -> Option<Timestamp> {
    let Timeline { course, last_at, next, rewinds: before, .. } = output;
    let (is_first, goes_back) = (last_at.0 == i64::MIN, at < *last_at);
    let begins_anew = if goes_back {
        let is_forgiven = course.forgiven.take() == Some(*last_at);
        // Of two packets that contradict each other the first one is wrong, if it was ahead.
        let contradicts = *next == 1 && last_at.since(at) > AHEAD;
        *faults += u64::from(!is_forgiven);
        is_forgiven || contradicts
    } else {
        // The first packet of a source says what clock it has.
        if is_first && made.by_source || !course.is_ahead(at, made) {
            if is_first {
                course.set(at, made);
            }
            return Some(at);
        }
        // One that is clamped takes its place.
        let takes_place = on_time_fault == OnTimeFault::Clamp && !is_first;
        if course.believes(at, *next, takes_place) {
            course.set(at, made);
            return Some(at);
        }
        *faults += 1;
        false
    };
    match on_time_fault {
        OnTimeFault::Drop if !begins_anew => None,
        // Nothing was before it that it could be clamped to.
        OnTimeFault::Clamp if is_first => None,
        OnTimeFault::Clamp if !begins_anew => Some(*last_at),
        _ => {
            // Where another output of the call has begun anew, this one does with it.
            *rewinds += u32::from(*before == *rewinds);
            course.set(at, made);
            Some(at)
        }
    }
}
