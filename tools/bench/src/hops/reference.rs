//! The same chain without a framework: boxed calls, and threads with channels between them.

use std::{
    convert::Infallible,
    hint::black_box,
    mem,
    sync::mpsc::sync_channel,
    thread,
    time::{Duration, Instant},
};

use afferent_engine::EdgePolicy;

use crate::hops::{
    HOPS,
    measure::{self, Arrivals, Block, Figures, Load},
};

const WARMUP: usize = 1000;

/// Calls `send` with each packet when its time has come.
fn pace(load: Load, mut send: impl FnMut(usize, bool)) {
    (0..WARMUP).for_each(|at| send(at, false));
    // Until the queues are empty and everybody sleeps.
    thread::sleep(Duration::from_millis(200));
    measure::begin();
    let start = Instant::now();
    for at in 0..load.packets {
        if let Some(period) = load.period {
            let due = start + period * u32::try_from(at).unwrap_or(u32::MAX);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        send(at, load.period.is_some());
    }
}

trait Step {
    fn process(&mut self, block: &mut Block);
}

impl Step for Arrivals {
    fn process(&mut self, block: &mut Block) {
        block.left = self.count(block.left);
    }
}

/// A call through `dyn` for each hop.
pub(super) fn boxed_calls(load: Load) -> Figures {
    let run = || {
        let mut steps: Vec<Box<dyn Step>> = Vec::new();
        steps.resize_with(HOPS, || Box::new(Arrivals::new()));
        let mut steps = black_box(steps);
        let mut block = Block::default();
        pace(load, |at, timed| {
            block.fill(at, timed);
            for step in &mut steps {
                step.process(black_box(&mut block));
            }
        });
        measure::end();
        Ok::<_, Infallible>(0)
    };
    let Ok(figures) = measure::collect(load, HOPS, run);
    figures
}

/// A thread for each end of `hops` channels, which hold as many packets as the edges of a graph.
pub(super) fn channels(load: Load, hops: usize) -> Figures {
    let run = || {
        let (source, mut receiver) = sync_channel::<Block>(EdgePolicy::QUEUE);
        thread::scope(|scope| {
            for _ in 1..hops {
                let (sender, next) = sync_channel(EdgePolicy::QUEUE);
                let previous = mem::replace(&mut receiver, next);
                scope.spawn(move || {
                    let mut arrivals = Arrivals::new();
                    for mut block in previous {
                        block.left = arrivals.count(block.left);
                        if sender.send(block).is_err() {
                            return;
                        }
                    }
                });
            }
            scope.spawn(move || {
                let mut arrivals = Arrivals::new();
                for block in receiver {
                    arrivals.count(block.left);
                }
                measure::end();
            });
            pace(load, |at, timed| {
                let mut block = Block::default();
                block.fill(at, timed);
                // The receiver takes packets until the sender is gone.
                let _ = source.send(block);
            });
            drop(source);
        });
        Ok::<_, Infallible>(0)
    };
    let Ok(figures) = measure::collect(load, hops, run);
    figures
}
