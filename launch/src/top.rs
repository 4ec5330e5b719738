//! `afferent top`: a live view of a graph that runs with `--serve`.
//!
//! | module    | holds                                             |
//! |-----------|---------------------------------------------------|
//! | `figures` | tables of a report                                |
//! | `history` | figures of the last minute                        |
//! | `state`   | state of the view, and keys                       |
//! | `screen`  | drawing of the state                              |

#[cfg(test)]
mod agent;
mod figures;
mod history;
mod screen;
mod state;

use std::{
    process::ExitCode,
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use afferent_engine::Report;
use anyhow::Context;
use clap::Args;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use crate::{serve::ADDRESS, table::aligned};
use figures::{Reading, head, sections};
use state::{Action, State};

/// Longest wait for a key before new figures are shown.
const POLL: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct TopArgs {
    /// Address of the graph's server
    #[arg(default_value = ADDRESS)]
    address: String,
    /// Interval between two reads, in milliseconds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..))]
    every: u64,
    /// Print the figures once as text, and end
    #[arg(long)]
    once: bool,
}

pub(crate) fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let report = ask(&args.address)?;
    if args.once {
        let reading = Reading { now: &report, before: None };
        let tables = sections(reading);
        let text: String =
            tables.iter().map(|section| format!("\n{}", aligned(&section.text()))).collect();
        crate::print(&format!("{}\n{text}", head(reading)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut state = State::new(report);
    let reports = read_reports(args.address.clone(), Duration::from_millis(args.every))?;
    let mut terminal = ratatui::try_init().context("cannot use this terminal; try --once")?;
    let result = show(&mut state, &mut terminal, &reports);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

/// Report that is served at `address`.
fn ask(address: &str) -> anyhow::Result<Report> {
    let url = format!("http://{address}/stats");
    let answer =
        ureq::get(&url).config().timeout_global(Some(Duration::from_secs(5))).build().call();
    let mut answer = answer.with_context(|| {
        format!("no figures at {address}: start the graph with `afferent run GRAPH --serve`")
    })?;
    let text = answer.body_mut().read_to_string()?;
    serde_json::from_str(&text).with_context(|| format!("{url} is not from afferent"))
}

/// Reads reports in a thread, so that a slow server does not delay keys. The thread ends when the
/// receiver is dropped.
fn read_reports(
    address: String,
    every: Duration,
) -> anyhow::Result<Receiver<anyhow::Result<Report>>> {
    let (send, reports) = mpsc::sync_channel(1);
    let read = move || {
        loop {
            thread::sleep(every);
            if send.send(ask(&address)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("figures".to_owned()).spawn(read)?;
    Ok(reports)
}

/// Shows the state until a key ends the view.
fn show(
    state: &mut State,
    terminal: &mut DefaultTerminal,
    reports: &Receiver<anyhow::Result<Report>>,
) -> anyhow::Result<()> {
    loop {
        terminal.draw(|frame| screen::draw(state, frame))?;
        if event::poll(POLL)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match state::action(key) {
                Some(Action::Quit) => return Ok(()),
                Some(action) => state.apply(action),
                None => {}
            }
        }
        while let Ok(report) = reports.try_recv() {
            state.update(report.map_err(|error| format!("{error:#}")));
        }
    }
}
