//! Devices that are lost and come back.

use std::{mem, time::Duration};

use afferent_graph::{Cx, NodeError, Timestamp, choices};

choices! {
    /// Action when a device is unplugged or gives nothing any more.
    pub enum OnLost {
        /// Wait until it is back.
        Restart = "restart",
        /// End the stream.
        End = "end",
        /// Fail, so that `on_error` of the node decides.
        Fail = "fail",
    }
}

/// Names of a device for messages, and the action when it is lost.
pub(crate) struct Policy {
    /// Kind of the device, such as `camera`.
    pub(crate) kind: &'static str,
    /// Name of the device.
    pub(crate) device: String,
    /// One value of its stream, such as `image`.
    pub(crate) value: &'static str,
    /// Action when the device is lost.
    pub(crate) on_lost: OnLost,
    /// Time without a value after which it counts as lost.
    pub(crate) timeout: Duration,
    /// Time between two attempts to open it again.
    pub(crate) retry: Duration,
}

/// A device that was set up (`O`), runs (`S`), or is lost.
pub(crate) struct Reconnect<O, S> {
    stage: Stage<O, S>,
    policy: Policy,
    /// Time at which the last value came, or of the start.
    last: Option<Timestamp>,
    /// Timestamp of the last value.
    last_stamp: Option<Timestamp>,
    /// Number of times that it was lost.
    lost: u64,
}

enum Stage<O, S> {
    /// The first call starts it: values from before the start of the graph are old.
    Opened(O),
    Running(S),
    Lost {
        since: Timestamp,
        next_try: Timestamp,
    },
}

impl<O, S> Reconnect<O, S> {
    pub(crate) fn new(opened: O, policy: Policy) -> Self {
        Self { stage: Stage::Opened(opened), policy, last: None, last_stamp: None, lost: 0 }
    }

    /// The running device; `None` while it is lost. `open` sets it up again, and `start` starts it.
    ///
    /// # Errors
    /// That of `start`, at the first call.
    pub(crate) fn running(
        &mut self,
        cx: &mut Cx<'_>,
        open: impl FnOnce() -> Result<O, NodeError>,
        start: impl FnOnce(O) -> Result<S, NodeError>,
    ) -> Result<Option<&mut S>, NodeError> {
        if !matches!(self.stage, Stage::Running(_)) {
            let absent = Stage::Lost { since: cx.now(), next_try: cx.now() };
            match mem::replace(&mut self.stage, absent) {
                Stage::Opened(opened) => self.stage = Stage::Running(start(opened)?),
                Stage::Lost { since, next_try } if next_try <= cx.now() => {
                    self.reopen(cx, since, open().and_then(start));
                }
                Stage::Lost { since, next_try } => {
                    self.stage = Stage::Lost { since, next_try };
                    cx.resume_at(next_try);
                }
                Stage::Running(source) => self.stage = Stage::Running(source),
            }
        }
        Ok(match &mut self.stage {
            Stage::Running(source) => Some(source),
            _ => None,
        })
    }

    /// Takes the result of an attempt to open a lost device again.
    fn reopen(&mut self, cx: &mut Cx<'_>, since: Timestamp, opened: Result<S, NodeError>) {
        let Policy { kind, device, .. } = &self.policy;
        match opened {
            Ok(source) => {
                let away = cx.now().since(since);
                tracing::info!("{kind} {device} is back after {away:.1?}");
                self.stage = Stage::Running(source);
                // The time of the loss does not count against it.
                self.last = Some(cx.now());
            }
            Err(error) => {
                tracing::debug!("{error}");
                self.wait(cx, since);
            }
        }
    }

    fn wait(&mut self, cx: &mut Cx<'_>, since: Timestamp) {
        let next_try = cx.now() + self.policy.retry;
        self.stage = Stage::Lost { since, next_try };
        cx.resume_at(next_try);
    }

    /// True while the device is lost.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.stage, Stage::Lost { .. })
    }

    /// Takes a value of time `at` that came at `now`; returns its timestamp, which never goes back.
    pub(crate) fn stamp(&mut self, now: Timestamp, at: Timestamp) -> Timestamp {
        self.last = Some(now);
        *self.last_stamp.insert(self.last_stamp.map_or(at, |last| at.max(last)))
    }

    /// Loses a device that has given nothing for too long. To be called if there is no value.
    ///
    /// # Errors
    /// As [`Reconnect::lose`].
    pub(crate) fn check_timeout(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let last = *self.last.get_or_insert(cx.now());
        let Policy { timeout, value, .. } = self.policy;
        match cx.now().since(last) > timeout {
            true => self.lose(cx, &format!("no {value} for {timeout:?}")),
            false => Ok(()),
        }
    }

    /// Handles the loss of the device.
    ///
    /// # Errors
    /// The loss, with `on_lost: fail`.
    pub(crate) fn lose(&mut self, cx: &mut Cx<'_>, reason: &str) -> Result<(), NodeError> {
        self.lost += 1;
        let (Policy { kind, device, on_lost, .. }, lost) = (&self.policy, self.lost);
        match on_lost {
            OnLost::Fail => {
                Err(NodeError::Device { name: device.clone(), reason: reason.to_owned() })
            }
            OnLost::End => {
                tracing::warn!("{kind} {device} is lost: {reason}; its stream ends");
                cx.end();
                Ok(())
            }
            OnLost::Restart => {
                tracing::warn!("{kind} {device} is lost: {reason} ({lost} times so far)");
                self.wait(cx, cx.now());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{Node, NodeBench, OpenCx, Port, Resume};

    use super::*;

    /// A node whose device is there, or not, as `is_there` says.
    struct Fake {
        device: Reconnect<(), ()>,
        is_there: bool,
        has_value: bool,
        runs: bool,
    }

    impl Node for Fake {
        type Params = ();
        const NAME: &'static str = "fake";
        const SUMMARY: &'static str = "";
        const PORTS: &'static [Port] = &[];
        const LATENCY: &'static str = "none";

        fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
            Ok(fake(OnLost::Restart))
        }

        fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
            let is_there = self.is_there;
            let absent = || NodeError::Payload("absent".to_owned());
            let open = || if is_there { Ok(()) } else { Err(absent()) };
            self.runs = self.device.running(cx, open, Ok)?.is_some();
            match (self.runs, self.is_there, self.has_value) {
                (false, ..) => Ok(()),
                (true, false, _) => self.device.lose(cx, "it is gone"),
                (true, true, true) => {
                    self.device.stamp(cx.now(), Timestamp(-1000));
                    Ok(())
                }
                (true, true, false) => self.device.check_timeout(cx),
            }
        }
    }

    fn fake(on_lost: OnLost) -> Fake {
        let policy = Policy {
            kind: "sensor",
            device: "one".to_owned(),
            value: "value",
            on_lost,
            timeout: Duration::from_nanos(100),
            retry: Duration::from_nanos(10),
        };
        let device = Reconnect::new((), policy);
        Fake { device, is_there: true, has_value: true, runs: false }
    }

    /// Calls the node at `now`; returns the time of the next call, if it is not now.
    fn call(bench: &mut NodeBench<Fake>, now: i64) -> Result<Option<i64>, String> {
        match bench.poll(Timestamp(now)).map_err(|error| error.to_string())?.1 {
            Resume::At(at) => Ok(Some(at.0)),
            Resume::Done => Ok(Some(i64::MAX)),
            Resume::Now => Ok(None),
        }
    }

    #[test]
    fn a_lost_device_is_tried_again_until_it_is_back() {
        let mut bench = NodeBench::new(fake(OnLost::Restart));
        assert_eq!(call(&mut bench, 0), Ok(None));
        bench.node_mut().is_there = false;
        assert_eq!(call(&mut bench, 1), Ok(Some(11)));
        assert_eq!(call(&mut bench, 5), Ok(Some(11)), "too early");
        assert_eq!(call(&mut bench, 11), Ok(Some(21)));
        bench.node_mut().is_there = true;
        assert_eq!(call(&mut bench, 21), Ok(None));
        assert!(bench.node_mut().runs);
    }

    #[test]
    fn a_silent_device_is_lost_and_its_silence_ends_with_its_return() {
        let mut bench = NodeBench::new(fake(OnLost::Restart));
        assert_eq!(call(&mut bench, 0), Ok(None));
        bench.node_mut().has_value = false;
        assert_eq!(call(&mut bench, 100), Ok(None));
        assert_eq!(call(&mut bench, 101), Ok(Some(111)));
        assert_eq!(call(&mut bench, 111), Ok(None), "back");
        assert_eq!(call(&mut bench, 211), Ok(None));
        assert_eq!(call(&mut bench, 212), Ok(Some(222)));
    }

    #[test]
    fn a_loss_ends_the_stream_or_fails() {
        let lost = |on_lost| {
            let mut bench = NodeBench::new(fake(on_lost));
            call(&mut bench, 0).unwrap();
            bench.node_mut().is_there = false;
            call(&mut bench, 1)
        };
        assert_eq!(lost(OnLost::End), Ok(Some(i64::MAX)));
        assert_eq!(lost(OnLost::Fail).unwrap_err(), "device \"one\": it is gone");
    }

    #[test]
    fn timestamps_never_go_back() {
        let mut device = fake(OnLost::Restart).device;
        let found = [5, 3, 8].map(|at| device.stamp(Timestamp::ZERO, Timestamp(at)).0);
        assert_eq!(found, [5, 5, 8]);
    }
}
