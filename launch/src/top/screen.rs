//! Drawing of the state: a line with the load, the tables, and a line with keys.

use ratatui::{
    Frame,
    layout::{Constraint, Flex, Layout, Rect},
    style::{Style, Stylize},
    text::{Line as Text, Span},
    widgets::{Block, Clear, Paragraph},
};

use super::{
    figures::{Column, Row, Section, head},
    state::{KEYS, Line, State},
};

/// Space between columns, in characters.
const GAP: usize = 2;
/// Width of a chart, in characters.
const CHART: std::ops::RangeInclusive<usize> = 8..=30;
/// Heading of the charts.
const CHART_NAME: &str = "last minute";
const HELP: &str = " up down move   Tab table   Enter fold   s sort   r reverse   ? help   q end";

/// Draws the state, and adapts its scrolling to the size of the terminal.
pub(crate) fn draw(state: &mut State, frame: &mut Frame<'_>) {
    let [top, tables, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let head = head(state.reading());
    let head = match &state.error {
        Some(error) => Text::from(format!("{head}  [{error}]")).red(),
        None => Text::from(head).bold(),
    };
    frame.render_widget(head, top);
    state.resize(tables.height.into());
    let lines = lines(state, tables.width.into(), tables.height.into());
    frame.render_widget(Paragraph::new(lines), tables);
    frame.render_widget(Text::from(HELP).dim(), bottom);
    if state.help {
        help(frame);
    }
}

fn help(frame: &mut Frame<'_>) {
    let keys = KEYS.iter().map(|(keys, effect)| {
        Text::from(vec![Span::from(format!(" {keys:17}")).bold(), Span::from(format!("{effect} "))])
    });
    let notes = [
        "",
        " Rates and shares are of the time since the read before.",
        " Charts: the last minute, scaled to the largest bar of the row.",
        " Pools: \"allocated\" above \"planned\" means kept packets.",
    ];
    let lines: Vec<_> = keys.chain(notes.into_iter().map(Text::from)).collect();
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let area = middle(frame.area(), 72, height);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), area);
}

/// Area of a size in the middle of another.
fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let [area] = Layout::horizontal([Constraint::Max(width)]).flex(Flex::Center).areas(area);
    let [area] = Layout::vertical([Constraint::Max(height)]).flex(Flex::Center).areas(area);
    area
}

/// Visible lines of the tables. The first one is the head of a table, also if that is above.
fn lines(state: &State, width: usize, height: usize) -> Vec<Text<'static>> {
    let layouts: Vec<_> =
        state.sections.iter().map(|section| Columns::new(section, width)).collect();
    let all = state.lines();
    let first = all.get(state.top).map_or(0, |line| line.section());
    let visible = all.iter().enumerate().skip(state.top).take(height);
    let lines = visible.map(|(index, line)| {
        let line = if index == state.top { Line::Head(first) } else { *line };
        let section = &state.sections[line.section()];
        let columns = &layouts[line.section()];
        let text = match line {
            Line::Head(number) => columns.head(state, number),
            Line::Row(_, row) => columns.row(state, section, &section.rows[row]),
        };
        if index == state.cursor { text.reversed() } else { text }
    });
    lines.collect()
}

/// Columns of a table that fit the terminal.
struct Columns {
    /// Width of the names.
    name: usize,
    /// Width of the charts, or zero.
    chart: usize,
    /// Index and width of each shown column.
    shown: Vec<(usize, usize)>,
}

impl Columns {
    fn new(section: &Section, width: usize) -> Self {
        let names = section.rows.iter().map(|row| row.name.chars().count());
        let limit = (width * 2 / 5).max(16);
        let name = names.max().unwrap_or(0).max(section.title.len() + 8).min(limit);
        let widest = |(index, column): (usize, &Column)| {
            let cells = section.rows.iter().filter_map(|row| row.cells.get(index));
            let cells = cells.map(|cell| cell.text.chars().count());
            // One more for the mark of the sorted column.
            (index, cells.max().unwrap_or(0).max(column.name.chars().count() + 1))
        };
        let mut shown: Vec<_> = section.columns.iter().enumerate().map(widest).collect();
        let chart = if section.charted.is_some() { *CHART.start() + GAP } else { 0 };
        let used = |shown: &[(usize, usize)]| {
            name + shown.iter().map(|(_, width)| width + GAP).sum::<usize>()
        };
        while shown.len() > 1 && used(&shown) + chart > width {
            let ranks = shown.iter().map(|(index, _)| section.columns[*index].rank);
            let last = ranks.enumerate().max_by_key(|(_, rank)| *rank);
            shown.remove(last.map_or(0, |(at, _)| at));
        }
        let free = width.saturating_sub(used(&shown) + GAP);
        let chart = match section.charted {
            Some(_) if free >= *CHART.start() => free.min(*CHART.end()),
            _ => 0,
        };
        Self { name, chart, shown }
    }

    /// Headings; a mark shows the sorted column.
    fn head(&self, state: &State, number: usize) -> Text<'static> {
        let section = &state.sections[number];
        let sort = state.sorts[number];
        let mark = |column: usize| match (sort.column == Some(column), column > 0) {
            (true, down) if down != sort.reverse => "↓",
            (true, _) => "↑",
            _ => "",
        };
        let fold = if state.folded[number] { "+" } else { "-" };
        let title = format!("{fold} {} ({}){}", section.title, section.rows.len(), mark(0));
        if state.folded[number] {
            return Text::from(title).bold().cyan();
        }
        let mut text = pad(&title, self.name);
        for (index, width) in &self.shown {
            let name = format!("{}{}", section.columns[*index].name, mark(index + 1));
            text += &format!("{:GAP$}{name:>width$}", "");
            if self.is_charted(section, *index) {
                text += &format!("{:GAP$}{:width$}", "", CHART_NAME, width = self.chart);
            }
        }
        Text::from(text).bold().cyan()
    }

    fn is_charted(&self, section: &Section, index: usize) -> bool {
        self.chart > 0 && section.charted == Some(index)
    }

    fn row(&self, state: &State, section: &Section, row: &Row) -> Text<'static> {
        let mut spans = vec![Span::from(pad(&row.name, self.name))];
        for (index, width) in &self.shown {
            let Some(cell) = row.cells.get(*index) else { continue };
            let style = if cell.alarm { Style::new().red().bold() } else { Style::new() };
            spans.push(Span::styled(format!("{:GAP$}{:>width$}", "", cell.text), style));
            if self.is_charted(section, *index) {
                let chart = state.history.chart(section.name, &row.name, self.chart);
                spans.push(Span::styled(format!("{:GAP$}{chart}", ""), Style::new().green()));
            }
        }
        Text::from(spans)
    }
}

/// Text of exactly `width` characters. An ellipsis marks the end of a cut name.
fn pad(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return format!("{text:width$}");
    }
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut + "…"
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::top::{
        agent::{NODES, agent},
        state::Action,
    };

    /// Lines of the screen.
    fn screen(state: &mut State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
    }

    fn running() -> State {
        let mut state = State::new(agent(1));
        (2..=70).for_each(|second| state.update(Ok(agent(second))));
        state
    }

    #[test]
    fn a_small_terminal_shows_all_nodes_and_the_first_edges() {
        let mut state = running();
        let lines = screen(&mut state, 80, 24);
        assert_eq!(lines[0].trim_end(), "voice_agent: 70.0 s, 50.0 % of one processor");
        for (line, name) in lines[2..14].iter().zip(NODES) {
            assert!(line.starts_with(name), "{lines:#?}");
            assert!(line.contains('█'), "no chart: {lines:#?}");
        }
        assert!(lines[1].contains("- nodes (12)") && lines[1].contains("errors"), "{lines:#?}");
        assert!(lines[5].contains("24.0"), "busy time of asr: {lines:#?}");
        assert!(
            lines[14].contains("- edges (11)") && lines[14].contains("packets/s"),
            "{lines:#?}"
        );
        assert!(lines[22].starts_with("sentences.output -> tts.input"), "{lines:#?}");
        assert!(lines[23].contains("? help"), "{lines:#?}");
    }

    #[test]
    fn a_wide_terminal_shows_all_columns() {
        let mut state = running();
        let lines = screen(&mut state, 110, 30);
        for name in ["thread", "busy %", "last minute", "latency p99", "errors", "restarts"] {
            assert!(lines[1].contains(name), "{name}: {lines:#?}");
        }
        assert!(
            lines.iter().any(|line| line.starts_with("barge.output -> log.input")),
            "{lines:#?}"
        );
        assert!(lines.iter().any(|line| line.starts_with("+ pools (12)")), "{lines:#?}");
    }

    #[test]
    fn the_heading_stays_while_rows_scroll() {
        let mut state = running();
        screen(&mut state, 80, 9);
        state.apply(Action::Move(11));
        let lines = screen(&mut state, 80, 9);
        assert!(lines[1].starts_with("- nodes (12)"), "{lines:#?}");
        assert!(lines[7].starts_with("barge"), "{lines:#?}");
        state.apply(Action::Last);
        let lines = screen(&mut state, 80, 9);
        assert!(lines[7].starts_with("+ pools (12)"), "{lines:#?}");
    }

    #[test]
    fn help_lists_the_keys_until_the_next_key() {
        let mut state = running();
        state.apply(Action::Help);
        let text = screen(&mut state, 80, 24).join("\n");
        for (keys, effect) in KEYS {
            assert!(text.contains(keys) && text.contains(effect), "{keys}: {text}");
        }
        state.apply(Action::Move(1));
        assert!(!screen(&mut state, 80, 24).join("\n").contains("Shift-Tab"));
    }

    #[test]
    fn a_tiny_terminal_is_drawn_too() {
        let mut state = running();
        state.apply(Action::Help);
        for (width, height) in [(1, 1), (3, 2), (10, 3), (20, 40), (300, 5)] {
            screen(&mut state, width, height);
        }
    }

    #[test]
    fn an_error_is_shown_with_the_last_figures() {
        let mut state = running();
        state.update(Err("no figures at 127.0.0.1:9464".to_owned()));
        let lines = screen(&mut state, 80, 24);
        assert!(lines[0].contains("[no figures"), "{lines:#?}");
        assert!(lines[2].starts_with("sound"), "{lines:#?}");
    }
}
