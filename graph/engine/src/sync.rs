//! Synchronizer: joins packets of several streams by timestamp.

use std::{cmp::Ordering, collections::VecDeque, mem, time::Duration};

use afferent_graph::{Header, Joined, Packet, Pool, Timestamp};

use crate::{
    JoinCounts,
    clock::generation::{self, Watermark},
    edge::port::Input,
};
use afferent_spec::SyncPolicy;

/// Watermark of a stream that has ended.
pub(crate) const END_OF_STREAM: Timestamp = Timestamp(i64::MAX);

/// Earlier than every timestamp.
const BEFORE_ALL: Timestamp = Timestamp(i64::MIN);

/// Synchronizer of one node.
pub(crate) struct Synchronizer {
    /// Index of the primary input.
    pub(crate) lead: usize,
    pub(crate) companions: Vec<Secondary>,
    /// Matches of the current call, by secondary input.
    pub(crate) joined: Vec<Joined>,
    /// Waiting primary packets, each with the start of its wait.
    pub(crate) waiting: VecDeque<(Packet, Timestamp)>,
    /// On the real clock, no more primary packets than this wait.
    pub(crate) room: usize,
    /// End of the wait.
    pub(crate) due: Option<Timestamp>,
    /// True if the missing packets do not come by themselves: the wait may end when nothing else
    /// can happen.
    pub(crate) stuck: bool,
    /// Restarts of the primary stream at the last judged packet.
    pub(crate) restarts: u32,
    pub(crate) counts: JoinCounts,
}

/// Secondary input.
///
/// After a restart, its packets wait until the primary stream has restarted as often: packets of
/// one source are joined within a source generation, whichever come first. Streams of different
/// sources are compared by time only.
pub(crate) struct Secondary {
    pub(crate) input: usize,
    sync: SyncPolicy,
    optional: bool,
    timeout: Option<Duration>,
    /// Largest number of buffered packets; the oldest is dropped.
    limit: usize,
    /// Buffered packets, each with whether it was matched.
    buffer: VecDeque<(Packet, bool)>,
    /// Packets after a restart of the stream.
    next: VecDeque<Packet>,
    /// Watermark of its sender.
    pub(crate) told: Watermark,
    pub(crate) is_over: bool,
    /// No earlier packet that belongs to the judged primary packet will come.
    bound: Timestamp,
    /// Timestamp of the last primary packet that went on.
    last: Timestamp,
    /// Restarts of the stream at the packets in `buffer`.
    restarts: u32,
    /// Timestamp of the newest packet since the last restart, which may be gone.
    newest: Timestamp,
    /// Last timestamp when it went back in time, if the primary stream did not.
    was: Timestamp,
    /// The primary stream went back in time, and no packet of this stream has come since.
    lags: bool,
    /// Pool of interpolated values.
    pool: Pool,
    pub(crate) counts: JoinCounts,
}

/// Certainty about the match of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Found,
    Missing,
    /// A match may still come.
    Open,
    /// As `Open`, but only if it is already in flight.
    Settle,
}

/// Next step of a primary packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Call the node with it.
    Call,
    /// Drop it: a required match is missing.
    Drop,
    Wait,
    /// As `Wait`, but only for packets in flight.
    Settle,
}

impl Synchronizer {
    /// Decides whether the primary packet at `at`, waiting since `since`, can go on; fills `joined`
    /// if so.
    ///
    /// With `forced` it waits for nothing. With `live` or `forced`, the last value is the one that
    /// is present.
    pub(crate) fn judge(
        &mut self,
        header: &Header,
        now: Timestamp,
        since: Timestamp,
        forced: bool,
        live: bool,
    ) -> Verdict {
        let at = header.at;
        let (mut verdict, mut missing, mut late) = (Verdict::Call, false, false);
        self.due = None;
        if header.restarts != self.restarts {
            self.restarts = header.restarts;
            self.companions.iter_mut().for_each(Secondary::lead_again);
        }
        for companion in &mut self.companions {
            match companion.settle(header, live || forced) {
                Decision::Found => {}
                Decision::Missing => missing |= !companion.optional,
                open => {
                    let ends = companion.timeout.map(|timeout| since + timeout);
                    if forced || ends.is_some_and(|ends| ends <= now) {
                        (late, companion.lags) = (true, false);
                        missing |= !companion.optional;
                        continue;
                    }
                    self.due = self.due.into_iter().chain(ends).min();
                    let settles = open == Decision::Settle && verdict != Verdict::Wait;
                    verdict = if settles { Verdict::Settle } else { Verdict::Wait };
                }
            }
        }
        if missing {
            verdict = Verdict::Drop;
        }
        match verdict {
            Verdict::Wait | Verdict::Settle => return verdict,
            Verdict::Call => self.counts.matched += 1,
            Verdict::Drop => self.counts.dropped += 1,
        }
        self.counts.late += u64::from(late);
        for (companion, joined) in self.companions.iter_mut().zip(&mut self.joined) {
            joined.packets.clear();
            if verdict == Verdict::Call {
                companion.collect(header, &mut joined.packets);
            }
            companion.last = companion.last.max(at);
        }
        verdict
    }

    /// Reports the matches of the current call, which starts at `real_ns`, to the budgets that are
    /// measured at their inputs.
    pub(crate) fn mark(&self, inputs: &[Input], real_ns: u64) {
        for (companion, joined) in self.companions.iter().zip(&self.joined) {
            for mark in &inputs[companion.input].marks {
                joined.packets.iter().for_each(|packet| mark.pass(packet.header.trace, real_ns));
            }
        }
    }

    /// Drops every waiting packet.
    pub(crate) fn clear(&mut self) {
        self.counts.dropped += self.waiting.len() as u64;
        self.waiting.clear();
        self.companions.iter_mut().for_each(Secondary::forget);
        self.joined.iter_mut().for_each(|joined| joined.packets.clear());
    }
}

impl Secondary {
    pub(crate) fn new(
        input: usize,
        sync: SyncPolicy,
        optional: bool,
        timeout: Option<Duration>,
        limit: usize,
    ) -> Self {
        Self {
            input,
            sync,
            optional,
            timeout,
            limit,
            buffer: VecDeque::new(),
            next: VecDeque::new(),
            told: Watermark::MIN,
            is_over: false,
            bound: BEFORE_ALL,
            last: BEFORE_ALL,
            restarts: 0,
            newest: BEFORE_ALL,
            was: BEFORE_ALL,
            lags: false,
            pool: Pool::new(2),
            counts: JoinCounts::default(),
        }
    }

    /// Takes a packet in.
    pub(crate) fn push(&mut self, packet: Packet) {
        self.lags = false;
        if self.buffer.len() + self.next.len() >= self.limit {
            self.pop();
        }
        // Pairing by index also holds when time goes back.
        let pairs = self.sync == SyncPolicy::Barrier;
        if pairs || (self.next.is_empty() && packet.header.restarts == self.restarts) {
            self.keep(packet);
        } else {
            self.next.push_back(packet);
        }
    }

    /// Keeps a packet for primary packets of its generation, unless they have gone on.
    fn keep(&mut self, packet: Packet) {
        let at = packet.header.at;
        self.newest = at;
        let is_late = match self.sync {
            SyncPolicy::Exact => at <= self.last,
            SyncPolicy::Approx { slop } => at + slop < self.last,
            SyncPolicy::Window { before, .. } => at + before < self.last,
            SyncPolicy::Latest { .. } | SyncPolicy::Interpolate | SyncPolicy::Barrier => false,
        };
        if is_late {
            self.counts.late += 1;
        } else {
            self.buffer.push_back((packet, false));
        }
    }

    /// The primary stream has restarted.
    fn lead_again(&mut self) {
        (self.last, self.was, self.lags) = (BEFORE_ALL, BEFORE_ALL, true);
    }

    /// Switches to the packets after the restart of the stream; earlier ones are dropped.
    fn turn(&mut self, lead: &Header) {
        let newest = mem::replace(&mut self.newest, BEFORE_ALL);
        self.clear();
        let Some(first) = self.next.front() else { return };
        self.restarts = first.header.restarts;
        // A primary packet that is nearer to the earlier time has not restarted, either.
        let distance = |at: Timestamp| lead.at.0.abs_diff(at.0);
        let is_alone = generation::compare_generations(first.header.trace, lead.trace).is_none()
            && first.header.at < newest
            && distance(newest) < distance(first.header.at);
        self.was = if is_alone { newest } else { BEFORE_ALL };
        self.last = BEFORE_ALL;
        while let Some(packet) =
            self.next.pop_front_if(|packet| packet.header.restarts == self.restarts)
        {
            self.keep(packet);
        }
    }

    /// Decides whether the match of the primary packet is certain; drops packets that match neither
    /// it nor a later one.
    fn settle(&mut self, lead: &Header, live: bool) -> Decision {
        loop {
            self.bound = self.bound_for(lead);
            self.prune(lead);
            let decision = self.decide(lead.at, live);
            let Some(first) = self.next.front() else { return self.revised(decision, lead, live) };
            let takes_what_is_there = matches!(self.sync, SyncPolicy::Latest { .. });
            let is_found = decision == Decision::Found && !takes_what_is_there;
            // The primary packet precedes the interrupt that this stream has passed.
            let is_before = lead.epoch != 0 && lead.epoch < first.header.epoch;
            match generation::compare_generations(first.header.trace, lead.trace) {
                Some(Ordering::Greater) => return decision,
                Some(Ordering::Equal) if is_before => return decision,
                // The primary stream may restart, too.
                None | Some(Ordering::Equal) if is_found => return decision,
                _ => self.turn(lead),
            }
        }
    }

    /// Corrects a decision if the two streams come from different sources and may not have advanced
    /// equally.
    fn revised(&self, decision: Decision, lead: &Header, live: bool) -> Decision {
        let newest = self.buffer.back().map(|(packet, _)| &packet.header);
        let alone = newest.is_some_and(|newest| {
            generation::compare_generations(newest.trace, lead.trace).is_none()
        });
        match decision {
            // It may restart at the same moment.
            Decision::Missing if alone && self.lags && !live && !self.is_over => Decision::Settle,
            // The match was sent before this stream restarted, or comes much later.
            Decision::Open | Decision::Settle if self.newest.max(self.bound) < self.was => {
                if live {
                    Decision::Missing
                } else {
                    Decision::Settle
                }
            }
            decision => decision,
        }
    }

    /// Watermark for the primary packet with this header.
    fn bound_for(&self, lead: &Header) -> Timestamp {
        match self.told.restarts.cmp(&self.restarts) {
            _ if self.is_over || !self.next.is_empty() => END_OF_STREAM,
            Ordering::Less => BEFORE_ALL,
            _ => self.told.at_packet(lead),
        }
    }

    /// Drops everything, including watermarks.
    fn forget(&mut self) {
        self.clear();
        self.counts.dropped += self.next.len() as u64;
        self.restarts = self.next.back().map_or(self.restarts, |packet| packet.header.restarts);
        self.next.clear();
        self.lead_again();
    }

    fn clear(&mut self) {
        while !self.buffer.is_empty() {
            self.pop();
        }
    }

    /// Drops the first packet.
    fn pop(&mut self) {
        let was_used = match self.buffer.pop_front() {
            Some((_, used)) => used,
            None => self.next.pop_front().is_none(),
        };
        self.counts.dropped += u64::from(!was_used);
    }

    fn at(&self, index: usize) -> Option<Timestamp> {
        self.buffer.get(index).map(|(packet, _)| packet.header.at)
    }

    /// Drops packets that can match neither the primary packet with this header nor a later one.
    fn prune(&mut self, lead: &Header) {
        let at = lead.at;
        let is_over = |packet: &Packet| {
            generation::compare_generations(packet.header.trace, lead.trace) == Some(Ordering::Less)
        };
        if self.sync != SyncPolicy::Barrier {
            while self.buffer.front().is_some_and(|(packet, _)| is_over(packet)) {
                self.pop();
            }
        }
        let first = match self.sync {
            SyncPolicy::Exact => at,
            SyncPolicy::Approx { slop } => at - slop,
            SyncPolicy::Window { before, .. } => at - before,
            SyncPolicy::Barrier => return,
            SyncPolicy::Latest { .. } | SyncPolicy::Interpolate => {
                while self.at(1).is_some_and(|next| next <= at) {
                    self.pop();
                }
                return;
            }
        };
        while self.at(0).is_some_and(|time| time < first) {
            self.pop();
        }
    }

    /// Packet nearest to `at`, after pruning; of two the earlier one.
    fn nearest(&self, at: Timestamp, slop: Duration) -> Option<usize> {
        let distance = |index: &usize| self.at(*index).map(|time| time.0.abs_diff(at.0));
        let nearest = (0..self.buffer.len()).min_by_key(distance)?;
        distance(&nearest)
            .filter(|distance| u128::from(*distance) <= slop.as_nanos())
            .map(|_| nearest)
    }

    /// Decides whether the match of `at` is certain, after pruning.
    fn decide(&self, at: Timestamp, live: bool) -> Decision {
        let newest = self.buffer.back().map(|(packet, _)| packet.header.at);
        let is_past =
            |time: Timestamp| self.bound > time || newest.is_some_and(|newest| newest > time);
        let either = |found: bool| if found { Decision::Found } else { Decision::Missing };
        let first = self.at(0);
        match self.sync {
            SyncPolicy::Exact if first == Some(at) => Decision::Found,
            SyncPolicy::Exact if is_past(at) => Decision::Missing,
            SyncPolicy::Approx { slop }
                if newest.is_some_and(|newest| newest >= at) || is_past(at + slop) =>
            {
                either(self.nearest(at, slop).is_some())
            }
            SyncPolicy::Latest { max_age } if live || is_past(at) => {
                either(first.is_some_and(|time| {
                    time <= at && max_age.is_none_or(|age| at.since(time) <= age)
                }))
            }
            SyncPolicy::Latest { .. } => Decision::Settle,
            SyncPolicy::Interpolate => match (first, self.at(1)) {
                (Some(time), _) if time == at => Decision::Found,
                (Some(time), _) if time > at => Decision::Missing,
                (Some(_), Some(_)) => Decision::Found,
                _ if self.bound == END_OF_STREAM => Decision::Missing,
                _ => Decision::Open,
            },
            SyncPolicy::Window { after, .. } if is_past(at + after) => {
                either(first.is_some_and(|time| time <= at + after))
            }
            SyncPolicy::Barrier if first.is_some() => Decision::Found,
            SyncPolicy::Barrier if self.bound == END_OF_STREAM => Decision::Missing,
            _ => Decision::Open,
        }
    }

    /// Collects the match of the primary packet, after the decision or at the end of the wait.
    fn collect(&mut self, lead: &Header, packets: &mut Vec<Packet>) {
        let at = lead.at;
        let count = match self.sync {
            SyncPolicy::Exact => usize::from(self.at(0) == Some(at)),
            SyncPolicy::Approx { slop } => match self.nearest(at, slop) {
                Some(index) => {
                    (0..index).for_each(|_| self.pop());
                    1
                }
                None => 0,
            },
            SyncPolicy::Latest { max_age } => {
                usize::from(self.at(0).is_some_and(|time| {
                    time <= at && max_age.is_none_or(|age| at.since(time) <= age)
                }))
            }
            SyncPolicy::Interpolate => return self.interpolate(at, packets),
            SyncPolicy::Window { after, .. } => {
                self.buffer.iter().take_while(|(packet, _)| packet.header.at <= at + after).count()
            }
            SyncPolicy::Barrier => 1,
        };
        for (packet, used) in self.buffer.iter_mut().take(count) {
            self.counts.matched += u64::from(!mem::replace(used, true));
            packets.push(packet.clone());
        }
        // Matches of these policies belong to one primary packet only.
        if matches!(self.sync, SyncPolicy::Exact | SyncPolicy::Approx { .. } | SyncPolicy::Barrier)
        {
            (0..count).for_each(|_| self.pop());
        }
    }

    fn interpolate(&mut self, at: Timestamp, packets: &mut Vec<Packet>) {
        let mut used = 0;
        if self.at(0) == Some(at) {
            packets.extend(self.buffer.front().map(|(packet, _)| packet.clone()));
            used = 1;
        } else if let (Some((before, _)), Some((after, _))) =
            (self.buffer.front(), self.buffer.get(1))
            && before.header.at < at
            && let (Some(value), Some(later)) = (before.payload(), after.payload())
        {
            let span = after.header.at.0.abs_diff(before.header.at.0) as f64;
            let share = at.0.abs_diff(before.header.at.0) as f64 / span;
            let header = Header { at, ..before.header };
            packets.extend(value.interpolated(later, share, &self.pool, header));
            used = 2;
        }
        for (_, is_used) in self.buffer.iter_mut().take(used) {
            self.counts.matched += u64::from(!mem::replace(is_used, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use afferent_messages::Imu;

    use super::*;

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    const fn time(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn packet(at: i64) -> Packet {
        let value = Imu { angular_velocity_rad_s: [at as f32; 3], ..Imu::default() };
        Packet::new(value, Header { at: ms(at), ..Header::default() })
    }

    /// Matches of primary packets at each timestamp after all of `stream` has arrived; `None` is a
    /// wait.
    fn check(
        sync: SyncPolicy,
        stream: &[i64],
        over: bool,
        leads: &[i64],
        expected: &[Option<&[f32]>],
    ) -> JoinCounts {
        let mut companion = Secondary::new(1, sync, true, None, 100);
        stream.iter().for_each(|at| companion.push(packet(*at)));
        if over {
            companion.is_over = true;
        }
        let mut join = Synchronizer {
            lead: 0,
            companions: vec![companion],
            joined: vec![Joined {
                port: afferent_graph::PortId::at(0),
                name: "".into(),
                packets: Vec::new(),
            }],
            waiting: VecDeque::new(),
            room: 1,
            due: None,
            stuck: false,
            restarts: 0,
            counts: JoinCounts::default(),
        };
        let found: Vec<_> = leads
            .iter()
            .map(|at| {
                let header = Header { at: ms(*at), ..Header::default() };
                let verdict = join.judge(&header, ms(0), ms(0), false, false);
                let values = join.joined[0].packets.iter();
                let values = values.map(|p| p.get::<Imu>().unwrap().angular_velocity_rad_s[0]);
                (verdict == Verdict::Call).then(|| values.collect::<Vec<_>>())
            })
            .collect();
        let expected: Vec<_> = expected.iter().map(|values| values.map(<[f32]>::to_vec)).collect();
        assert_eq!(found, expected, "{sync:?}");
        join.companions.remove(0).counts
    }

    #[test]
    fn exact() {
        let counts = check(
            SyncPolicy::Exact,
            &[10, 20, 30],
            false,
            &[10, 15, 30, 40],
            &[Some(&[10.0]), Some(&[]), Some(&[30.0]), None],
        );
        assert_eq!((counts.matched, counts.dropped), (2, 1));
        check(SyncPolicy::Exact, &[10], true, &[20], &[Some(&[])]);
    }

    #[test]
    fn approx() {
        let sync = SyncPolicy::Approx { slop: time(4) };
        check(
            sync,
            &[10, 18, 21, 30],
            false,
            &[12, 20, 26, 33],
            &[Some(&[10.0]), Some(&[21.0]), Some(&[30.0]), None],
        );
        check(sync, &[10, 20], false, &[15, 18], &[Some(&[]), Some(&[20.0])]);
        check(sync, &[10], true, &[13], &[Some(&[10.0])]);
    }

    #[test]
    fn latest() {
        let sync = SyncPolicy::Latest { max_age: Some(time(5)) };
        check(
            sync,
            &[10, 20],
            false,
            &[9, 12, 16, 19, 20],
            &[Some(&[]), Some(&[10.0]), Some(&[]), Some(&[]), None],
        );
        check(
            SyncPolicy::Latest { max_age: None },
            &[10],
            true,
            &[12, 99],
            &[Some(&[10.0]), Some(&[10.0])],
        );
    }

    #[test]
    fn interpolate() {
        let counts = check(
            SyncPolicy::Interpolate,
            &[10, 20, 30],
            false,
            &[5, 10, 15, 27, 30, 31],
            &[Some(&[]), Some(&[10.0]), Some(&[15.0]), Some(&[27.0]), Some(&[30.0]), None],
        );
        assert_eq!((counts.matched, counts.dropped), (3, 0));
        check(SyncPolicy::Interpolate, &[10], true, &[11], &[Some(&[])]);
    }

    #[test]
    fn window() {
        let sync = SyncPolicy::Window { before: time(5), after: time(2) };
        check(
            sync,
            &[4, 6, 10, 12, 20],
            false,
            &[10, 12, 17, 30],
            &[Some(&[6.0, 10.0, 12.0]), Some(&[10.0, 12.0]), Some(&[12.0]), None],
        );
    }

    #[test]
    fn barrier() {
        check(
            SyncPolicy::Barrier,
            &[1, 2],
            false,
            &[10, 20, 30],
            &[Some(&[1.0]), Some(&[2.0]), None],
        );
    }

    #[test]
    fn late_packets_and_too_many_are_counted() {
        let mut companion = Secondary::new(1, SyncPolicy::Exact, true, None, 2);
        companion.last = ms(10);
        [10, 11, 12, 13].iter().for_each(|at| companion.push(packet(*at)));
        assert_eq!(
            (companion.counts.late, companion.counts.dropped, companion.buffer.len()),
            (1, 1, 2)
        );
    }
}
