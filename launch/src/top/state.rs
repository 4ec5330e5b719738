//! State of the view: figures, cursor, folded tables and sort order. It does no input and output.

use afferent_engine::Report;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    figures::{Reading, SECTIONS, Section, sections},
    history::History,
};

/// Table of pools, folded at the start.
const POOLS: usize = 3;

/// Effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Moves the cursor by lines.
    Move(isize),
    /// Moves the cursor by screens.
    Page(isize),
    First,
    Last,
    /// Moves the cursor to the head of another table.
    Section(isize),
    /// Folds or unfolds the table of the cursor.
    Fold,
    /// Folds or unfolds all tables.
    FoldAll,
    /// Sorts the table of the cursor by another column.
    Sort(isize),
    Reverse,
    /// Restores the order of the graph.
    Unsort,
    Help,
    Quit,
}

/// Keys of the view and their effects, for the help.
pub(crate) const KEYS: [(&str, &str); 10] = [
    ("up down, k j", "move by a line"),
    ("PgUp PgDn, u d", "move by a page"),
    ("Home End, g G", "move to the start, to the end"),
    ("Tab, Shift-Tab", "move to the next, to the previous table"),
    ("Enter, Space", "fold or unfold the table"),
    ("f", "fold or unfold all tables"),
    ("s S, right left", "sort the table by the next, by the previous column"),
    ("r", "reverse the order"),
    ("o", "restore the order of the graph"),
    ("?  q", "this help; end (also Esc, Ctrl-C)"),
];

/// Action of a key.
pub(crate) fn action(key: KeyEvent) -> Option<Action> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Action::Quit,
        KeyCode::Char('u') if control => Action::Page(-1),
        KeyCode::Char('d') if control => Action::Page(1),
        _ if control => return None,
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp | KeyCode::Char('u') => Action::Page(-1),
        KeyCode::PageDown | KeyCode::Char('d') => Action::Page(1),
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Tab => Action::Section(1),
        KeyCode::BackTab => Action::Section(-1),
        KeyCode::Enter | KeyCode::Char(' ') => Action::Fold,
        KeyCode::Char('f') => Action::FoldAll,
        KeyCode::Char('s') | KeyCode::Right => Action::Sort(1),
        KeyCode::Char('S') | KeyCode::Left => Action::Sort(-1),
        KeyCode::Char('r') => Action::Reverse,
        KeyCode::Char('o') => Action::Unsort,
        KeyCode::Char('?') => Action::Help,
        _ => return None,
    })
}

/// Order of the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sort {
    /// Zero for the name, or the index of a column plus one; `None` for the order of the graph.
    pub(crate) column: Option<usize>,
    /// True for ascending numbers and descending names.
    pub(crate) reverse: bool,
}

/// Line of the list of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Headings of a table.
    Head(usize),
    /// Table, and row.
    Row(usize, usize),
}

impl Line {
    pub(crate) fn section(self) -> usize {
        match self {
            Self::Head(section) | Self::Row(section, _) => section,
        }
    }
}

/// State of the view.
pub(crate) struct State {
    now: Report,
    before: Option<Report>,
    /// Reason for outdated figures.
    pub(crate) error: Option<String>,
    pub(crate) history: History,
    /// Tables, sorted.
    pub(crate) sections: [Section; SECTIONS],
    pub(crate) sorts: [Sort; SECTIONS],
    pub(crate) folded: [bool; SECTIONS],
    /// Index of the selected line.
    pub(crate) cursor: usize,
    /// Index of the first visible line.
    pub(crate) top: usize,
    /// Number of visible lines.
    height: usize,
    pub(crate) help: bool,
}

impl State {
    pub(crate) fn new(now: Report) -> Self {
        let mut folded = [false; SECTIONS];
        folded[POOLS] = true;
        let sections = sections(Reading { now: &now, before: None });
        Self {
            now,
            before: None,
            error: None,
            history: History::default(),
            sections,
            sorts: [Sort::default(); SECTIONS],
            folded,
            cursor: 0,
            top: 0,
            height: 1,
            help: false,
        }
    }

    /// The current figures, and those before.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading { now: &self.now, before: self.before.as_ref() }
    }

    /// Takes new figures, or the reason why there are none.
    pub(crate) fn update(&mut self, report: Result<Report, String>) {
        match report {
            Ok(report) => {
                let restarted = report.graph != self.now.graph || report.wall_ns < self.now.wall_ns;
                let before = std::mem::replace(&mut self.now, report);
                self.before = (!restarted).then_some(before);
                if restarted {
                    self.history = History::default();
                }
                self.error = None;
                self.arrange();
                self.history.add(self.now.wall_ns, &self.sections);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Lines of all tables.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let sections = self.sections.iter().zip(&self.folded).enumerate();
        let lines = sections.flat_map(|(index, (section, folded))| {
            let rows = if *folded { 0 } else { section.rows.len() };
            let rows = (0..rows).map(move |row| Line::Row(index, row));
            std::iter::once(Line::Head(index)).chain(rows)
        });
        lines.collect()
    }

    /// Sets the number of visible lines, and scrolls so that the cursor is among them.
    pub(crate) fn resize(&mut self, height: usize) {
        self.height = height.max(1);
        self.scroll();
    }

    /// Applies an action other than [`Action::Quit`].
    pub(crate) fn apply(&mut self, action: Action) {
        if self.help {
            self.help = false;
            return;
        }
        let lines = self.lines();
        let section = lines.get(self.cursor).map_or(0, |line| line.section());
        let page = self.height.saturating_sub(2).max(1);
        match action {
            Action::Move(by) => self.cursor = self.cursor.saturating_add_signed(by),
            Action::Page(by) => {
                let by = by.saturating_mul(isize::try_from(page).unwrap_or(isize::MAX));
                self.cursor = self.cursor.saturating_add_signed(by);
            }
            Action::First => self.cursor = 0,
            Action::Last => self.cursor = lines.len(),
            Action::Section(by) => {
                let next = (section + SECTIONS).saturating_add_signed(by) % SECTIONS;
                self.go_to(next);
            }
            Action::Fold => {
                self.folded[section] = !self.folded[section];
                self.go_to(section);
            }
            Action::FoldAll => {
                self.folded = [!self.folded.iter().all(|folded| *folded); SECTIONS];
                self.go_to(section);
            }
            Action::Sort(by) => {
                let count = self.sections[section].columns.len() + 1;
                let sort = &mut self.sorts[section];
                let next = match sort.column {
                    None if by > 0 => 0,
                    None => count - 1,
                    Some(column) => (column + count).saturating_add_signed(by) % count,
                };
                *sort = Sort { column: Some(next), reverse: false };
            }
            Action::Reverse => self.sorts[section].reverse = !self.sorts[section].reverse,
            Action::Unsort => self.sorts[section] = Sort::default(),
            Action::Help => self.help = true,
            Action::Quit => {}
        }
        self.arrange();
        self.scroll();
    }

    /// Moves the cursor to the head of a table.
    fn go_to(&mut self, section: usize) {
        let head = self.lines().iter().position(|line| *line == Line::Head(section));
        self.cursor = head.unwrap_or(0);
    }

    /// Moves the cursor into the list, and the visible part to the cursor. The first visible line
    /// is always the head of a table, so the line below it is the first for the cursor.
    fn scroll(&mut self) {
        let lines = self.lines();
        self.cursor = self.cursor.min(lines.len().saturating_sub(1));
        self.top = self.top.min(lines.len().saturating_sub(self.height));
        self.top = self.top.max((self.cursor + 1).saturating_sub(self.height)).min(self.cursor);
        if self.top == self.cursor && matches!(lines.get(self.top), Some(Line::Row(..))) {
            self.top = self.top.saturating_sub(usize::from(self.height > 1));
        }
    }

    /// Makes the tables of the current figures, and sorts them.
    fn arrange(&mut self) {
        self.sections = sections(self.reading());
        for (section, sort) in self.sections.iter_mut().zip(self.sorts) {
            match sort.column {
                None => {}
                Some(0) => section.rows.sort_by(|a, b| a.name.cmp(&b.name)),
                Some(column) => section.rows.sort_by(|a, b| {
                    let value = |cells: &[super::figures::Cell]| {
                        cells.get(column - 1).map_or(0.0, |cell| cell.value)
                    };
                    value(&b.cells).total_cmp(&value(&a.cells))
                }),
            }
            if sort.reverse {
                section.rows.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::agent::agent;

    fn names(state: &State, section: usize) -> Vec<&str> {
        state.sections[section].rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn tables_are_sorted_by_name_and_by_figures() {
        let mut state = State::new(agent(1));
        let original = names(&state, 0).join(" ");
        state.apply(Action::Sort(1));
        assert_eq!(names(&state, 0)[..3], ["asr", "barge", "llm"]);
        // The third column is the share of busy time.
        state.apply(Action::Sort(1));
        state.apply(Action::Sort(1));
        assert_eq!(names(&state, 0)[0], "log");
        state.apply(Action::Reverse);
        assert_eq!(names(&state, 0)[0], "sound");
        state.apply(Action::Unsort);
        assert_eq!(names(&state, 0).join(" "), original);
        state.apply(Action::Sort(-1));
        assert_eq!(state.sorts[0].column, Some(8));
        // Other tables keep their order.
        assert_eq!(state.sorts[1], Sort::default());
    }

    #[test]
    fn the_cursor_stays_in_the_list_and_on_the_screen() {
        let mut state = State::new(agent(1));
        state.resize(10);
        let count = state.lines().len();
        let moves = [Action::Move(-1), Action::Page(1), Action::Last, Action::Move(1)];
        let more = [Action::Page(-1), Action::Section(1), Action::Section(-1), Action::First];
        for action in moves.into_iter().chain(more).cycle().take(60) {
            state.apply(action);
            assert!(state.cursor < count, "{action:?}");
            assert!(state.top <= state.cursor && state.cursor < state.top + 10, "{action:?}");
            // A head is above each row.
            let is_row = matches!(state.lines()[state.top], Line::Row(..));
            assert!(!is_row || state.top < state.cursor, "{action:?}");
        }
        state.apply(Action::Last);
        assert_eq!(state.cursor, count - 1);
    }

    #[test]
    fn tables_fold() {
        let mut state = State::new(agent(1));
        assert_eq!(state.folded, [false, false, false, true]);
        state.apply(Action::Move(5));
        state.apply(Action::Fold);
        assert_eq!((state.folded[0], state.cursor), (true, 0));
        assert_eq!(state.lines()[1], Line::Head(1));
        state.apply(Action::FoldAll);
        assert_eq!(state.lines().len(), SECTIONS);
        state.apply(Action::FoldAll);
        assert_eq!(state.folded, [false; SECTIONS]);
    }

    #[test]
    fn a_restart_clears_the_history() {
        let mut state = State::new(agent(1));
        state.update(Ok(agent(2)));
        state.update(Err("no figures".to_owned()));
        assert!(state.error.is_some() && state.before.is_some());
        assert_eq!(state.history.chart("node", "asr", 2).trim_start(), "█");
        state.update(Ok(agent(0)));
        assert!(state.error.is_none() && state.before.is_none());
        assert_eq!(state.history.chart("node", "asr", 2).trim_start(), "▁");
    }

    #[test]
    fn keys_have_actions() {
        let press = |code, modifiers| action(KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('j'), none), Some(Action::Move(1)));
        assert_eq!(press(KeyCode::PageUp, none), Some(Action::Page(-1)));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(press(KeyCode::Char('c'), none), None);
        assert_eq!(press(KeyCode::Char('S'), KeyModifiers::SHIFT), Some(Action::Sort(-1)));
    }
}
