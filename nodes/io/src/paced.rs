//! Values of a file, at their times after the start of the session.

use std::time::Duration;

use afferent_graph::{Cx, NodeError, Timestamp};

use crate::Pace;

/// Reads the next value with its time since the first one; `None` at the end.
pub(crate) type Readings<T> = Box<dyn FnMut() -> Result<Option<(Duration, T)>, NodeError> + Send>;

/// Values of a file, at their times.
pub(crate) struct Paced<T> {
    open: Box<dyn Fn() -> Result<Readings<T>, NodeError> + Send>,
    next: Readings<T>,
    pace: Pace,
    repeat: bool,
    /// Value that was read too early.
    early: Option<(Duration, T)>,
    /// Time at which this pass through the file began, its last value, and the distance to the one
    /// before.
    start: Duration,
    last: Duration,
    period: Duration,
}

impl<T> Paced<T> {
    /// Opens a file. With `repeat`, it is opened again at its end.
    pub(crate) fn open(
        open: impl Fn() -> Result<Readings<T>, NodeError> + Send + 'static,
        pace: Pace,
        repeat: bool,
    ) -> Result<Self, NodeError> {
        let next = open()?;
        let (start, last, period) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let open = Box::new(open);
        Ok(Self { open, next, pace, repeat, early: None, start, last, period })
    }

    /// The next value with its time since the start of the session; `None` at the end.
    fn next(&mut self) -> Result<Option<(Duration, T)>, NodeError> {
        if let Some(early) = self.early.take() {
            return Ok(Some(early));
        }
        let mut next = (self.next)()?;
        // A file without values would be read for ever.
        if next.is_none() && self.repeat && !self.period.is_zero() {
            self.next = (self.open)()?;
            self.start = self.last.saturating_add(self.period);
            next = (self.next)()?;
        }
        Ok(next.map(|(since, value)| (self.start.saturating_add(since), value)))
    }

    /// The value that is due, if any, with its timestamp. Asks for the next call, or ends the stream.
    pub(crate) fn poll(&mut self, cx: &mut Cx<'_>) -> Result<Option<(Timestamp, T)>, NodeError> {
        let Some((time, value)) = self.next()? else {
            cx.end();
            return Ok(None);
        };
        let at = Timestamp::ZERO + time;
        if self.pace == Pace::Realtime && cx.now() < at {
            self.early = Some((time, value));
            cx.resume_at(at);
            return Ok(None);
        }
        if time > self.last {
            self.period = time - self.last;
        }
        self.last = time;
        cx.resume();
        Ok(Some((at, value)))
    }
}
