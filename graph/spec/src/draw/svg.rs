//! SVG output.

use std::{collections::BTreeSet, fmt::Write};

use crate::{
    CheckedGraph,
    draw::{
        Words,
        boxes::Texts,
        layout::{Label, Layout, Rect, layout},
        text::{LINE, NAME_SIZE, SIZE},
    },
};

/// Colors of lines, one for each payload type.
const COLORS: [&str; 7] =
    ["#1f5fa8", "#a8471f", "#2c7a45", "#7a3d99", "#8a6d00", "#0f7c86", "#a3295f"];
const GRAY: &str = "#5b6770";
const DARK: &str = "#39424a";
const FRAME: &str = "#9aa5ae";
/// Radius of the corners of lines, in pixels.
const CORNER: f64 = 5.0;

/// Writes an SVG file.
pub(crate) fn draw(graph: &CheckedGraph, words: &Words) -> String {
    let texts = Texts::new(graph, words);
    let layout = layout(graph, &texts);
    let colors = colors(&texts);
    let (width, height) = (layout.width, layout.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\">\n<title>{}</title>\n",
        escape(&graph.name)
    );
    heads(&mut text, &colors);
    text.push_str("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    frames(&mut text, &layout);
    lines(&mut text, graph, &layout, &colors);
    for ((node, rect), lines) in graph.nodes.iter().zip(&layout.boxes).zip(&texts.nodes) {
        let fill = if node.def.is_source() { "#e3f1e6" } else { "#e8effa" };
        node_box(&mut text, *rect, fill, lines);
    }
    for (edge, label) in &layout.outputs {
        label_lines(&mut text, label, |number| if number == 0 { DARK } else { colors[*edge] });
    }
    for label in &layout.inputs {
        label_lines(&mut text, label, |number| if number == 0 { DARK } else { GRAY });
    }
    text + "</svg>\n"
}

/// Frames of machines and processes.
fn frames(text: &mut String, layout: &Layout) {
    for (Rect { x, y, width, height }, title) in &layout.frames {
        let (left, baseline, title) = (x + 8.0, y + 13.0, escape(title));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<rect class=\"frame\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\" rx=\"8\" fill=\"none\" stroke=\"{FRAME}\"/>\n\
             <text class=\"frame\" x=\"{left:.1}\" y=\"{baseline:.1}\" font-size=\"{SIZE}\" \
             font-weight=\"bold\" fill=\"{GRAY}\">{title}</text>"
        );
    }
}

/// Color of each edge.
fn colors(texts: &Texts) -> Vec<&'static str> {
    let payloads: Vec<_> = texts.outputs.iter().map(|lines| lines.get(1)).collect();
    let first = |edge: usize| payloads.iter().position(|payload| *payload == payloads[edge]);
    let firsts: Vec<_> = (0..payloads.len()).map(first).collect();
    let known: BTreeSet<_> = firsts.iter().collect();
    let number = |first| known.iter().position(|known| *known == first).unwrap_or(0);
    firsts.iter().map(|first| COLORS[number(first) % COLORS.len()]).collect()
}

/// Heads of arrows, in each color.
fn heads(text: &mut String, colors: &[&str]) {
    text.push_str("<defs>");
    for color in COLORS.iter().filter(|color| colors.contains(color)) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<marker id=\"head{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" \
             markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\
             <path d=\"M0 0 8 4 0 8z\" fill=\"{color}\"/></marker>",
            &color[1..]
        );
    }
    text.push_str("</defs>\n");
}

/// Lines of all edges. Lines of one output and direction are drawn together, with a white border
/// that interrupts the lines below them.
fn lines(text: &mut String, graph: &CheckedGraph, layout: &Layout, colors: &[&str]) {
    let mut order: Vec<usize> = (0..layout.edges.len()).collect();
    let key = |edge: usize| {
        let (node, port) = graph.edges[edge].from;
        (!layout.back[edge], node, port.index())
    };
    order.sort_by_key(|edge| key(*edge));
    for same in order.chunk_by(|a, b| key(*a) == key(*b)) {
        let points: Vec<_> = same.iter().map(|edge| layout.edges[*edge].as_slice()).collect();
        let paths = (0..same.len()).map(|at| path(&branch(points[at], &points[..at])));
        let paths: Vec<String> = paths.collect();
        for path in &paths {
            let _ = writeln!(
                text,
                "<path d=\"{path}\" fill=\"none\" stroke=\"#ffffff\" stroke-width=\"5\"/>"
            );
        }
        for (edge, path) in same.iter().zip(&paths) {
            let dash = if layout.back[*edge] { " stroke-dasharray=\"5 3\"" } else { "" };
            let color = colors[*edge];
            let name = escape(&graph.edge_name(&graph.edges[*edge]));
            let _ = writeln!(
                text,
                "<path class=\"edge\" d=\"{path}\" fill=\"none\" stroke=\"{color}\" \
                 stroke-width=\"1.5\"{dash} marker-end=\"url(#head{})\"><title>{name}</title></path>",
                &color[1..]
            );
        }
    }
}

/// The part of a line that starts where it leaves the others, so that dashes do not overlap.
fn branch(points: &[(f64, f64)], others: &[&[(f64, f64)]]) -> Vec<(f64, f64)> {
    let leaves = |other: &&[(f64, f64)]| {
        let same = points.iter().zip(*other).take_while(|(a, b)| a == b).count();
        let (before, a, b) =
            (points.get(same.checked_sub(1)?)?, points.get(same)?, other.get(same)?);
        let direction = |to: &(f64, f64)| {
            let (x, y) = (to.0 - before.0, to.1 - before.1);
            (x.abs() + y.abs(), if x == 0.0 { (0.0, y.signum()) } else { (x.signum(), 0.0) })
        };
        let ((length, a_direction), (other_length, b_direction)) = (direction(a), direction(b));
        let shared = if a_direction == b_direction { length.min(other_length) } else { 0.0 };
        Some((same - 1, shared))
    };
    let mut found = others.iter().filter_map(leaves).collect::<Vec<_>>();
    found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let Some((at, shared)) = found.pop() else { return points.to_vec() };
    // A corner needs the end of the line ahead of it.
    let (at, length) = if shared > 0.0 || at == 0 { (at, shared) } else { (at - 1, f64::MAX) };
    let ((x, y), (to_x, to_y)) = (points[at], points[at + 1]);
    let whole = (to_x - x).abs() + (to_y - y).abs();
    let share = ((length.min(whole) - CORNER) / whole).clamp(0.0, 1.0);
    let start = (x + (to_x - x) * share, y + (to_y - y) * share);
    std::iter::once(start).chain(points[at + 1..].iter().copied()).collect()
}

/// SVG path through `points`, with round corners.
fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (number, (x, y)) in points.iter().enumerate() {
        let before = number.checked_sub(1).and_then(|before| points.get(before));
        // Writing to a string cannot fail.
        let _ = match (before, points.get(number + 1)) {
            (None, _) => write!(path, "M{x:.1} {y:.1}"),
            (Some(_), None) => write!(path, " L{x:.1} {y:.1}"),
            (Some(before), Some(after)) => {
                let near = |(to_x, to_y): &(f64, f64)| {
                    let length = (to_x - x).abs() + (to_y - y).abs();
                    let share = CORNER.min(length / 2.0) / length.max(f64::MIN_POSITIVE);
                    (x + (to_x - x) * share, y + (to_y - y) * share)
                };
                let ((from_x, from_y), (to_x, to_y)) = (near(before), near(after));
                write!(path, " L{from_x:.1} {from_y:.1} Q{x:.1} {y:.1} {to_x:.1} {to_y:.1}")
            }
        };
    }
    path
}

/// Box with its lines; the first is the name.
fn node_box(text: &mut String, rect: Rect, fill: &str, lines: &[String]) {
    let Rect { x, y, width, height } = rect;
    let _ = writeln!(
        text,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\" \
         fill=\"{fill}\" stroke=\"{DARK}\"/>"
    );
    let middle = x + width / 2.0;
    let first = y + height / 2.0 + 5.0 - 7.5 * (lines.len() as f64 - 1.0);
    for (number, line) in lines.iter().enumerate() {
        let style = match number {
            0 => format!("font-size=\"{NAME_SIZE}\" font-weight=\"bold\""),
            _ => format!("font-size=\"{SIZE}\" fill=\"{GRAY}\""),
        };
        let y = first + 15.0 * number as f64;
        let line = escape(line);
        let _ = writeln!(
            text,
            "<text x=\"{middle:.1}\" y=\"{y:.1}\" {style} text-anchor=\"middle\">{line}</text>"
        );
    }
}

/// Lines of a label, each with its color.
fn label_lines(text: &mut String, label: &Label, color: impl Fn(usize) -> &'static str) {
    for (number, line) in label.lines.iter().enumerate() {
        let (x, y) = (label.x, label.y + LINE * number as f64);
        let (color, line) = (color(number), escape(line));
        let _ = writeln!(
            text,
            "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{SIZE}\" \
             fill=\"{color}\">{line}</text>"
        );
    }
}

/// Escapes text for XML; characters that XML forbids are replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_ends_a_text() {
        assert_eq!(super::escape("a<b>&\"\u{1}"), "a&lt;b&gt;&amp;&quot;\u{fffd}");
    }
}
