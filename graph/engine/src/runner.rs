//! One node of a running graph: its calls, what it sent, and its figures.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use afferent_graph::{Cx, DynNode, Header, Packet, Pool, Resume, Timestamp};

use crate::{
    Failure, FailureKind,
    clock::Moment,
    edge::{Inlet, Outlet},
    metrics::NodeStats,
    queue::Taken,
    shared::Shared,
};

pub(crate) struct Runner {
    /// In the nodes of the graph.
    pub(crate) place: usize,
    pub(crate) name: String,
    pub(crate) node: Box<dyn DynNode>,
    /// The last epoch that it has heard of; zero when it cannot be cancelled.
    pub(crate) epoch: u32,
    pub(crate) is_source: bool,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// For each output the memory of its values.
    pub(crate) pools: Vec<(&'static str, Pool)>,
    /// What the last call sent and not everybody has yet: output and packet, the first one last.
    pub(crate) outbox: Vec<(usize, Packet)>,
    /// How many edges have taken the last packet of the outbox.
    pub(crate) taken_by: usize,
    pub(crate) phase: Phase,
    /// What a source asked for.
    pub(crate) resume: Resume,
    /// When a source was last called, counted in calls of sources.
    pub(crate) turn: u64,
    /// The earliest packet that waits for a companion, on the virtual clock.
    pub(crate) held: Option<Timestamp>,
    /// It may take what it holds back, once.
    pub(crate) granted: bool,
    /// Header of the last packet, which what `finish` sends descends from.
    pub(crate) origin: Header,
    pub(crate) stats: NodeStats,
}

/// An input stream.
pub(crate) struct Input {
    pub(crate) port: &'static str,
    /// Name of the node that sends.
    pub(crate) from: String,
    /// Place in the edges of the graph.
    pub(crate) edge: usize,
    pub(crate) inlet: Inlet,
}

/// An output stream.
pub(crate) struct Output {
    pub(crate) port: &'static str,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) next: u64,
    /// Time of the last packet. Nothing earlier may follow; several events may have one time.
    pub(crate) last_at: Timestamp,
    /// Whether its packets interrupt the graph.
    pub(crate) interrupts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// It is not called any more, but what it sent is not delivered yet.
    Finishing,
    Ended,
}

/// What a call is for.
pub(crate) enum Call {
    Source,
    /// For a packet, by the input at this place.
    Packet(usize, Packet),
    Cancel,
    Finish,
}

impl Runner {
    /// Calls the node; afterwards what it sent is in the outbox, which was empty before.
    ///
    /// # Errors
    /// When the node returned an error or panicked.
    pub(crate) fn call(
        &mut self,
        shared: &Shared,
        group: usize,
        start: Moment,
        call: Call,
    ) -> Result<Moment, (Moment, Failure)> {
        let process = match call {
            Call::Source | Call::Packet(..) => DynNode::process,
            Call::Cancel => DynNode::cancel,
            Call::Finish => DynNode::finish,
        };
        let mut source = "";
        let (input, entered_ns) = match call {
            Call::Packet(input, packet) => {
                let input = &self.inputs[input];
                source = &input.from;
                self.origin = packet.header;
                let entered_ns = packet.header.entered_ns;
                (Some((input.port, packet)), Some(entered_ns))
            }
            Call::Finish if !self.is_source && self.stats.packets_in > 0 => (None, None),
            Call::Source | Call::Cancel | Call::Finish => {
                let (epoch, entered_ns) = (self.epoch, start.real_ns);
                self.origin = Header { at: start.now, epoch, entered_ns, ..Header::default() };
                (None, None)
            }
        };
        shared.calling[group].store(self.place, Ordering::Relaxed);
        let mut cx = Cx::new(start.now, input, self.origin, &self.pools, &mut self.outbox)
            .with_source(source)
            .with_real_ns(start.real_ns)
            .with_cancel(shared.interrupt.flag(self.place));
        let node = &mut *self.node;
        let result = catch_unwind(AssertUnwindSafe(|| process(node, &mut cx)));
        let (resume, model_ns) = (cx.resume(), cx.model_ns());
        drop(cx);
        let end = shared.clock.read();
        self.resume = resume;
        let latency_ns = entered_ns.map(|entered| end.real_ns.saturating_sub(entered));
        self.stats.count_call(end.real_ns - start.real_ns, model_ns, latency_ns);
        let obsolete = self.is_behind(shared);
        if obsolete {
            self.stats.cancelled += self.outbox.len() as u64;
            self.outbox.clear();
        }
        self.stamp(shared, end);
        let (kind, message) = match result {
            Ok(Ok(())) => return Ok(end),
            Ok(Err(error)) if obsolete && error.is_cancelled() => return Ok(end),
            Ok(Err(error)) => (FailureKind::Error, error.to_string()),
            Err(panic) => (FailureKind::Panic, panic_text(&*panic).to_owned()),
        };
        self.stats.errors += 1;
        Err((end, Failure { node: self.name.clone(), kind, message }))
    }

    /// Whether there was an interrupt that concerns the node and that it has not heard of.
    pub(crate) fn is_behind(&self, shared: &Shared) -> bool {
        self.epoch != 0 && self.epoch != shared.interrupt.epoch()
    }

    /// Completes the headers of what was sent, and drops what is older than its stream.
    fn stamp(&mut self, shared: &Shared, sent: Moment) {
        let Self { outputs, outbox, stats, .. } = self;
        let mut interrupts = false;
        outbox.retain_mut(|(output, packet)| {
            let output = &mut outputs[*output];
            let header = &mut packet.header;
            if header.at < output.last_at {
                stats.timestamp_faults += 1;
                return false;
            }
            output.last_at = header.at;
            header.sequence = output.next;
            output.next += 1;
            if self.is_source {
                // The same in every run: no counter is shared between threads.
                header.trace = (self.place as u64) << 48 | stats.packets_out;
                header.entered_ns = sent.real_ns;
                stats.count_media(header.at);
            }
            stats.packets_out += 1;
            interrupts |= output.interrupts;
            if let Some(observer) = &shared.observer {
                observer.sent(&self.name, output.port, packet);
            }
            true
        });
        outbox.reverse();
        if interrupts {
            shared.interrupt.interrupt();
        }
    }

    /// The next packet, and the input that it came in by: the one with the smallest time stamp.
    ///
    /// With `patient`, a packet is held back while an input is empty that has not ended.
    /// `freed` gets the senders in this group that can go on.
    pub(crate) fn take_input(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
    ) -> Taken<(usize, Packet)> {
        let epoch = self.epoch;
        if self.is_source {
            return if self.resume == Resume::Done { Taken::Over } else { Taken::Empty };
        }
        loop {
            let choice = match self.inputs.len() {
                1 => Taken::Next(0),
                _ => self.choose_input(now, patient, &mut freed),
            };
            let choice = match choice {
                Taken::Next(choice) => choice,
                Taken::Empty => return Taken::Empty,
                Taken::Over => return Taken::Over,
            };
            let input = &mut self.inputs[choice];
            let (taken, sender) = input.inlet.take(now, epoch);
            sender.map(&mut freed);
            match taken {
                Taken::Next(packet) => return Taken::Next((choice, packet)),
                Taken::Empty if self.inputs.len() == 1 => return Taken::Empty,
                Taken::Over if self.inputs.len() == 1 => return Taken::Over,
                // The packet was replaced meanwhile.
                Taken::Empty | Taken::Over => {}
            }
        }
    }

    fn choose_input(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
    ) -> Taken<usize> {
        let epoch = self.epoch;
        let (mut earliest, mut missing) = (None, false);
        for (place, input) in self.inputs.iter_mut().enumerate() {
            let (head, sender) = input.inlet.head(now, epoch);
            sender.map(&mut freed);
            match head {
                Taken::Next(at) if earliest.is_none_or(|(other, _)| at < other) => {
                    earliest = Some((at, place));
                }
                Taken::Empty => missing = true,
                Taken::Next(_) | Taken::Over => {}
            }
        }
        self.held = None;
        match earliest {
            Some((at, _)) if patient && missing && !mem::take(&mut self.granted) => {
                self.held = Some(at);
                Taken::Empty
            }
            Some((_, place)) => {
                self.granted = false;
                Taken::Next(place)
            }
            None if missing => Taken::Empty,
            None => Taken::Over,
        }
    }

    /// When a source wants to be called; `None` while it cannot be.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let callable = self.is_source && self.phase == Phase::Running && self.outbox.is_empty();
        match self.resume {
            _ if !callable => None,
            Resume::Now => Some(now),
            Resume::At(at) => Some(at),
            Resume::Done => None,
        }
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
