//! Runs a graph inside a program, watches it, and prints the summary.
//!
//! ```text
//! cargo run --release --example embed_graph -- pipelines/wake_word.yaml
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Duration;

use afferent::{
    App,
    engine::{RunEnd, RunOptions},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "pipelines/wake_word.yaml".to_owned());
    let app = App::new();
    let graph = app.load(&path)?;
    let session = app.start(&graph, RunOptions::default())?;
    let watch = session.watch_handle();
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let report = watch.read(Duration::from_millis(100));
        if report.end != RunEnd::Running {
            break;
        }
        let packets: u64 = report.nodes.iter().map(|node| node.packets_out).sum();
        println!("{packets} packets so far");
    }
    let mut summary = String::new();
    session.wait()?.write_summary(&mut summary)?;
    print!("{summary}");
    Ok(())
}
