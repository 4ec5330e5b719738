//! Interrupts: what they cancel is never delivered, and what they do not cancel is not lost.

use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
};

use afferent_engine::{ClockKind, Report, RunOptions, Session, Threads};
use afferent_graph::{NodeError, OpenCx};

use crate::kit::{Gate, Graph, Number, OUT, Seen, block, ms};

/// Progress of interrupts as the test knows it, independent of the engine.
#[derive(Default)]
struct Known {
    /// Interrupts that may have begun.
    begun: AtomicU64,
    /// Interrupts that are over, because their packet has been delivered.
    done: AtomicU64,
}

/// A small generator of the xorshift family.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A number, and the interrupts that may have begun before it came to a node that they cancel.
fn marked(number: u64, begun: u64) -> Number {
    Number(begun << 32 | number)
}

const WORK: u64 = 100;
const INTERRUPTS: u64 = 8;

/// Work through three nodes that are canceled, the last one with a device that plays its packets; two logs that are not canceled; a source that interrupts. Returns what the device holds
/// at the end, and the report.
fn check(seed: u64, options: RunOptions, heavy: &[usize]) -> (Vec<u64>, Report) {
    let is_virtual = options.clock == ClockKind::Virtual;
    let mut random = Random(seed * 2 + 1);
    let mut graph = Graph::default();
    let known = Arc::new(Known::default());
    let goes_on = known.clone();
    let work = match is_virtual {
        true => graph.clocked(0, 7, WORK),
        false => graph.source(move |call, cx| {
            cx.send_at(OUT, ms(call), Number(call));
            // Longer than the interrupts, so that the last of them has something to hit.
            call < WORK || goes_on.done.load(SeqCst) < INTERRUPTS
        }),
    };
    let mic = if is_virtual { graph.clocked(0, 9, WORK) } else { graph.numbers(WORK) };
    let begun = known.clone();
    let barge = graph.source(move |call, cx| {
        if is_virtual {
            cx.resume_at(cx.now() + std::time::Duration::from_millis(random.below(500)));
        } else {
            (0..random.below(20_000)).for_each(|_| hint::spin_loop());
        }
        begun.begun.fetch_add(1, SeqCst);
        cx.send(OUT, Number(call));
        call + 1 < INTERRUPTS
    });
    let done = known.clone();
    let watch = graph.node("watch", move |_, _| {
        done.done.fetch_add(1, SeqCst);
        Ok(())
    });
    let begun = known.clone();
    let llm = graph.node("llm", move |number, cx| {
        let begun = begun.begun.load(SeqCst);
        (0..3).for_each(|part| cx.send(OUT, marked(number * 4 + part, begun)));
        Ok(())
    });
    let tts = graph.node("tts", |number, cx| {
        (0..2).for_each(|_| cx.send(OUT, Number(number)));
        Ok(())
    });
    let (played, done) = (Seen::default(), known.clone());
    let plays = played.clone();
    let speaker = graph.node("speaker", move |number, cx| {
        // On the virtual clock an interrupt waits for the present, so what is done may be older.
        let is_stale = !is_virtual && done.done.load(SeqCst) > number >> 32;
        assert!(!is_stale || cx.canceled(), "packet {number:x} is stale");
        plays.lock().unwrap().push(number);
        Ok(())
    });
    let (log, logged) = graph.sink("log");
    let (mic_log, heard) = graph.sink("mic_log");
    let silenced = played.clone();
    graph.canceled(llm, |_| Ok(()));
    graph.canceled(tts, |_| Ok(()));
    graph.canceled(speaker, move |_| {
        silenced.lock().unwrap().clear();
        Ok(())
    });
    graph.interrupted_by(barge);
    graph.edge_with(work, llm, block(5));
    graph.edge_with(llm, tts, block(7));
    graph.edge_with(tts, speaker, block(3));
    graph.edge(llm, log);
    graph.edge(mic, mic_log);
    graph.edge(barge, watch);
    graph.heavy(heavy);
    let report = graph.run(options).unwrap();

    assert_eq!(heard.lock().unwrap().len() as u64, WORK, "the microphone was not interrupted");
    check_counts(&report, llm, logged.lock().unwrap().len() as u64);
    let interrupts = report.nodes[speaker].interrupts;
    assert!((1..=INTERRUPTS).contains(&interrupts), "{interrupts}");
    let played = played.lock().unwrap().clone();
    (played, report)
}

/// Every packet is delivered or counted; `logged` came to the log of the node `llm`.
fn check_counts(report: &Report, llm: usize, logged: u64) {
    let of = |from: &str, to: &str| {
        let mut edges = report.edges.iter();
        edges.find(|edge| edge.from.starts_with(from) && edge.to.starts_with(to)).unwrap().counts
    };
    let to_log = of("llm", "log");
    assert_eq!((to_log.delivered, logged), (to_log.sent - to_log.dropped_epoch, to_log.delivered));
    assert_eq!(of("source", "watch").delivered, INTERRUPTS);
    for edge in &report.edges {
        let counts = edge.counts;
        assert_eq!(counts.sent, counts.delivered + counts.dropped(), "{}", edge.from);
        assert_eq!(counts.dropped(), counts.dropped_epoch);
    }
    let work = of("source0", "llm");
    assert!(work.sent >= WORK);
    let made = report.nodes[llm].packets_out + report.nodes[llm].canceled;
    assert_eq!(made, 3 * work.delivered, "every packet of a call is sent or counted");
}

#[test]
fn not_one_stale_packet_is_delivered() {
    // The nodes are work 0, mic 1, barge 2, watch 3, llm 4, tts 5, speaker 6.
    let threads: [&[usize]; 4] = [&[], &[4], &[6], &[3, 4, 5, 6]];
    for seed in 0..25 {
        for heavy in threads {
            let (played, _) = check(seed, RunOptions::default(), heavy);
            let stale = played.iter().filter(|number| *number >> 32 < 8).count();
            assert_eq!(stale, 0, "seed {seed}: after the last interrupt its epoch alone is heard");
        }
        let options = RunOptions { threads: Threads::Single, ..RunOptions::default() };
        check(seed, options, &[]);
    }
}

#[test]
fn on_the_virtual_clock_interrupts_hit_the_same_packets_in_every_run() {
    for seed in 0..10 {
        let run = |threads, heavy: &[usize]| {
            let options =
                RunOptions { threads, clock: ClockKind::Virtual, ..RunOptions::default() };
            let (played, report) = check(seed, options, heavy);
            let counts: Vec<_> =
                report.edges.iter().map(|edge| (edge.counts.sent, edge.counts.dropped())).collect();
            let played: Vec<_> = played.iter().map(|number| number & 0xffff_ffff).collect();
            (played, counts)
        };
        let single = run(Threads::Single, &[]);
        assert_eq!(run(Threads::Auto, &[]), single, "seed {seed}");
        assert_eq!(run(Threads::Auto, &[3, 4, 5, 6]), single, "seed {seed}");
    }
}

/// Packets that a merge holds back on the virtual clock are canceled with it.
#[test]
fn a_packet_that_waits_for_its_match_is_canceled() {
    for heavy in [false, true] {
        let mut graph = Graph::default();
        let (fast, slow) = (graph.clocked(0, 10, 10), graph.clocked(100, 75, 2));
        let barge = graph.source(|call, cx| {
            // With the sixth packet of the fast source, which then waits for the slow one.
            cx.resume_at(ms(50));
            if call == 1 {
                cx.send(OUT, Number(0));
            }
            call == 0
        });
        let hold = graph.adder("hold", 0);
        let (merge, seen) = graph.sink("merge");
        graph.canceled(merge, |_| Ok(()));
        graph.interrupted_by(barge);
        graph.edge(fast, hold);
        graph.edge(hold, merge);
        graph.edge(slow, merge);
        if heavy {
            graph.heavy(&[hold, merge]);
        }
        let clock = ClockKind::Virtual;
        let report = graph.run(RunOptions { clock, ..RunOptions::default() }).unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!((seen.len(), seen.contains(&5), report.nodes[merge].interrupts), (11, false, 1));
    }
}

#[test]
fn a_running_call_hears_of_it_and_is_no_failure() {
    let mut graph = Graph::default();
    let source = graph.numbers(3);
    let (to_test, at_test) = mpsc::channel();
    let cancels = Arc::new(AtomicU64::new(0));
    let runs = graph.node("runs", move |number, cx| {
        cx.send(OUT, Number(number));
        if number == 1 {
            to_test.send(()).unwrap();
            while !cx.canceled() {
                thread::yield_now();
            }
            return Err(NodeError::Canceled);
        }
        Ok(())
    });
    let (sink, seen) = graph.sink("sink");
    let counted = cancels.clone();
    graph.canceled(runs, move |cx| {
        assert!(!cx.canceled());
        counted.fetch_add(1, SeqCst);
        Ok(())
    });
    graph.heavy(&[runs, sink]);
    graph.edge_with(source, runs, block(1));
    graph.edge(runs, sink);
    let session =
        Session::start(&graph.checked(), &OpenCx::default(), RunOptions::default()).unwrap();
    at_test.recv().unwrap();
    session.interrupt_handle().interrupt();
    let report = session.wait().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], 0, "the sink is not canceled: it keeps what it had");
    assert!(!seen.contains(&1), "what the call made is dropped");
    assert_eq!((cancels.load(SeqCst), report.nodes[runs].canceled), (1, 1));
}

/// A queue that an interrupt empties lets its sender go on.
#[test]
fn a_sender_that_waits_goes_on() {
    let mut graph = Graph::default();
    let source = graph.numbers(50);
    let (taken, held) = (Gate::default(), Gate::default());
    let (is_taken, let_go) = (taken.clone(), held.clone());
    let (step, seen) = graph.sink("step");
    let hold = graph.node("hold", move |number, cx| {
        if number == 0 {
            taken.open();
            held.wait();
        }
        cx.send(OUT, Number(number));
        Ok(())
    });
    graph.canceled(hold, |_| Ok(()));
    graph.heavy(&[hold]);
    graph.edge_with(source, hold, block(2));
    graph.edge(hold, step);
    let session =
        Session::start(&graph.checked(), &OpenCx::default(), RunOptions::default()).unwrap();
    is_taken.wait();
    session.interrupt_handle().interrupt();
    let_go.open();
    let report = session.wait().unwrap();
    let seen = seen.lock().unwrap();
    let counts = report.edges[0].counts;
    assert_eq!((counts.sent, seen.len() as u64), (50, counts.delivered - 1));
    assert!(!seen.contains(&0) && counts.dropped_epoch <= 3, "{counts:?}");
}

/// A packet of the node waits for its other input when the interrupt comes.
#[test]
fn time_continues_after_a_node_that_fails_to_cancel() {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut graph = Graph::default();
        let at = |graph: &mut Graph, time: u64| {
            graph.source(move |call, cx| {
                if call == 0 {
                    cx.resume_at(ms(time));
                } else {
                    cx.send(OUT, Number(time));
                }
                call == 0
            })
        };
        let often = graph.clocked(0, 20, 5);
        let (late, barge) = (at(&mut graph, 200), at(&mut graph, 20));
        let node = graph.node("fails", |_, _| Ok(()));
        graph.canceled(node, |_| {
            Err(NodeError::File { path: "device".into(), reason: "gone".to_owned() })
        });
        let (sink, seen) = graph.sink("sink");
        graph.edge(often, node);
        graph.edge(late, node);
        graph.edge(late, sink);
        graph.interrupted_by(barge);
        let options = RunOptions {
            clock: ClockKind::Virtual,
            threads: Threads::Single,
            ..RunOptions::default()
        };
        let _ = graph.run(options);
        let _ = done.send(seen.lock().unwrap().clone());
    });
    let ended = ended.recv_timeout(std::time::Duration::from_secs(20));
    assert_eq!(ended, Ok(vec![200]));
}
