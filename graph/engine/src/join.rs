//! The packets of several streams that belong to one time.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Header, Joined, Packet, Pool, Timestamp};

use crate::{JoinCounts, SyncPolicy};

/// Nothing earlier than this can come any more once a stream has ended.
pub(crate) const NEVER: Timestamp = Timestamp(i64::MAX);

/// What accompanies the leading stream of a node.
pub(crate) struct Join {
    /// The leading one of the inputs.
    pub(crate) lead: usize,
    pub(crate) companions: Vec<Companion>,
    /// What the present call gets from each companion.
    pub(crate) joined: Vec<Joined>,
    /// The leading packets that wait, and since when.
    pub(crate) waiting: VecDeque<(Packet, Timestamp)>,
    /// On the real clock as many of them as this do not wait.
    pub(crate) room: usize,
    /// When the wait ends.
    pub(crate) due: Option<Timestamp>,
    /// What it waits for will not come by itself: it may go on when nothing else can happen.
    pub(crate) stuck: bool,
    pub(crate) counts: JoinCounts,
}

/// A stream that accompanies the leading one.
pub(crate) struct Companion {
    pub(crate) input: usize,
    sync: SyncPolicy,
    optional: bool,
    timeout: Option<Duration>,
    /// Packets that are kept at most; of more, the oldest is dropped.
    limit: usize,
    /// Packets, each with whether it was used.
    buffer: VecDeque<(Packet, bool)>,
    /// Nothing earlier can come any more.
    pub(crate) bound: Timestamp,
    /// Time of the last leading packet that went on.
    last: Timestamp,
    restarts: u32,
    /// For values that are made here.
    pool: Pool,
    pub(crate) counts: JoinCounts,
}

/// Whether it is sure what belongs to a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Found,
    Missing,
    /// Something that belongs there may come.
    Open,
    /// As `Open`, but only if it is on its way already.
    Settle,
}

/// What a leading packet has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The node is called with it.
    Call,
    /// It is dropped, because a companion that is not optional is missing.
    Drop,
    Wait,
    /// As `Wait`, but only for what is on its way already.
    Settle,
}

impl Join {
    /// Whether the leading packet at `at` that waits since `since` can go on; fills `joined` if so.
    ///
    /// With `forced` it waits for nothing. With `live` the last value is what is there now.
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
        for companion in &mut self.companions {
            companion.prune(at);
            match companion.decide(at, live) {
                Decision::Found => {}
                Decision::Missing => missing |= !companion.optional,
                open => {
                    let ends = companion.timeout.map(|timeout| since + timeout);
                    if forced || ends.is_some_and(|ends| ends <= now) {
                        late = true;
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

    /// Forgets everything that waits.
    pub(crate) fn clear(&mut self) {
        self.counts.dropped += self.waiting.len() as u64;
        self.waiting.clear();
        self.companions.iter_mut().for_each(Companion::clear);
        self.joined.iter_mut().for_each(|joined| joined.packets.clear());
    }
}

impl Companion {
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
            bound: Timestamp(i64::MIN),
            last: Timestamp(i64::MIN),
            restarts: 0,
            pool: Pool::new(2),
            counts: JoinCounts::default(),
        }
    }

    /// Takes a packet in.
    pub(crate) fn push(&mut self, packet: Packet) {
        if packet.header.restarts != self.restarts {
            self.restarts = packet.header.restarts;
            self.clear();
            (self.bound, self.last) = (Timestamp(i64::MIN), Timestamp(i64::MIN));
        }
        let at = packet.header.at;
        let is_late = match self.sync {
            SyncPolicy::Exact => at <= self.last,
            SyncPolicy::Approx { slop } => at + slop < self.last,
            SyncPolicy::Window { before, .. } => at + before < self.last,
            SyncPolicy::Latest { .. } | SyncPolicy::Interpolate | SyncPolicy::Barrier => false,
        };
        if is_late {
            self.counts.late += 1;
            return;
        }
        if self.buffer.len() >= self.limit {
            self.pop();
        }
        self.buffer.push_back((packet, false));
    }

    fn clear(&mut self) {
        while !self.buffer.is_empty() {
            self.pop();
        }
    }

    /// Lets go of the first packet.
    fn pop(&mut self) {
        if let Some((_, false)) = self.buffer.pop_front() {
            self.counts.dropped += 1;
        }
    }

    fn at(&self, place: usize) -> Option<Timestamp> {
        self.buffer.get(place).map(|(packet, _)| packet.header.at)
    }

    /// Lets go of what cannot belong to `at` or anything later.
    fn prune(&mut self, at: Timestamp) {
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

    /// The packet that is nearest to `at`, after pruning; of two the earlier.
    fn nearest(&self, at: Timestamp, slop: Duration) -> Option<usize> {
        let distance = |place: &usize| self.at(*place).map(|time| time.0.abs_diff(at.0));
        let nearest = (0..self.buffer.len()).min_by_key(distance)?;
        distance(&nearest)
            .filter(|distance| u128::from(*distance) <= slop.as_nanos())
            .map(|_| nearest)
    }

    /// Whether it is sure what belongs to `at`, after pruning.
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
                _ if self.bound == NEVER => Decision::Missing,
                _ => Decision::Open,
            },
            SyncPolicy::Window { after, .. } if is_past(at + after) => {
                either(first.is_some_and(|time| time <= at + after))
            }
            SyncPolicy::Barrier if first.is_some() => Decision::Found,
            SyncPolicy::Barrier if self.bound == NEVER => Decision::Missing,
            _ => Decision::Open,
        }
    }

    /// Hands out what belongs to the leading packet, after it was decided or the wait was over.
    fn collect(&mut self, lead: &Header, packets: &mut Vec<Packet>) {
        let at = lead.at;
        let count = match self.sync {
            SyncPolicy::Exact => usize::from(self.at(0) == Some(at)),
            SyncPolicy::Approx { slop } => match self.nearest(at, slop) {
                Some(place) => {
                    (0..place).for_each(|_| self.pop());
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
            self.counts.matched += u64::from(!std::mem::replace(used, true));
            packets.push(packet.clone());
        }
        // These belong to one time only.
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
            self.counts.matched += u64::from(!std::mem::replace(is_used, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::Imu;

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

    /// What a leading packet at each time gets, when all of `stream` has come: `None` is a wait.
    fn check(
        sync: SyncPolicy,
        stream: &[i64],
        over: bool,
        leads: &[i64],
        expected: &[Option<&[f32]>],
    ) -> JoinCounts {
        let mut companion = Companion::new(1, sync, true, None, 100);
        stream.iter().for_each(|at| companion.push(packet(*at)));
        if over {
            companion.bound = NEVER;
        }
        let mut join = Join {
            lead: 0,
            companions: vec![companion],
            joined: vec![Joined::default()],
            waiting: VecDeque::new(),
            room: 1,
            due: None,
            stuck: false,
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
        let mut companion = Companion::new(1, SyncPolicy::Exact, true, None, 2);
        companion.last = ms(10);
        [10, 11, 12, 13].iter().for_each(|at| companion.push(packet(*at)));
        assert_eq!(
            (companion.counts.late, companion.counts.dropped, companion.buffer.len()),
            (1, 1, 2)
        );
    }
}
