//! SVG output.

use std::fmt::Write;

use crate::{
    CheckedGraph,
    draw::{
        Words,
        layout::{Rect, layout},
    },
};

/// Writes an SVG file.
pub(crate) fn draw(graph: &CheckedGraph, words: &Words) -> String {
    // Output and payload above the arrow, label below it.
    let labels: Vec<_> = words
        .edges
        .iter()
        .map(|lines| match lines.as_slice() {
            [port, payload, rest @ ..] => (format!("{port}: {payload}"), rest.first().cloned()),
            _ => (String::new(), None),
        })
        .collect();
    let under = labels.iter().filter_map(|(_, under)| under.as_ref());
    let all = labels.iter().map(|(over, _)| over).chain(under);
    let longest = all.map(|label| label.chars().count()).max().unwrap_or(0);
    let layout = layout(graph, words, longest);
    let (width, height) = (layout.width, layout.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\">\n\
         <title>{}</title>\n\
         <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#5b6770\"/></marker>\
         </defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        escape(&graph.name)
    );
    for points in &layout.arrows {
        let _ = writeln!(
            text,
            "<path d=\"{}\" fill=\"none\" stroke=\"#5b6770\" stroke-width=\"1.4\" \
             marker-end=\"url(#head)\"/>",
            curve(points)
        );
    }
    for ((node, rect), lines) in graph.nodes.iter().zip(&layout.boxes).zip(&words.nodes) {
        let fill = if node.def.is_source() { "#e3f1e6" } else { "#e8effa" };
        node_box(&mut text, *rect, fill, lines);
    }
    for (points, (over, under)) in layout.arrows.iter().zip(&labels) {
        let [(x0, y0), (x1, y1), ..] = points.as_slice() else { continue };
        let (x, middle) = (f64::midpoint(*x0, *x1), f64::midpoint(*y0, *y1));
        for (label, y) in [(Some(over), middle - 3.0), (under.as_ref(), middle + 11.0)] {
            let Some(label) = label else { continue };
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"11\" text-anchor=\"middle\" \
                 fill=\"#39424a\" stroke=\"#ffffff\" stroke-width=\"3\" \
                 paint-order=\"stroke\">{}</text>",
                escape(label)
            );
        }
    }
    text + "</svg>\n"
}

/// SVG path of an arrow through `points`.
fn curve(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (number, (x, y)) in points.iter().enumerate() {
        let before = number.checked_sub(1).and_then(|before| points.get(before));
        // Writing to a string cannot fail.
        let _ = match before {
            None => write!(path, "M{x:.1} {y:.1}"),
            Some((from_x, from_y)) if number % 2 == 1 => {
                let middle = f64::midpoint(*from_x, *x);
                write!(path, " C{middle:.1} {from_y:.1} {middle:.1} {y:.1} {x:.1} {y:.1}")
            }
            Some(_) => write!(path, " L{x:.1} {y:.1}"),
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
         fill=\"{fill}\" stroke=\"#39424a\"/>"
    );
    let middle = x + width / 2.0;
    let first = y + height / 2.0 + 6.0 - 8.0 * (lines.len() as f64 - 1.0);
    for (number, line) in lines.iter().enumerate() {
        let style = match number {
            0 => "font-size=\"14\" font-weight=\"bold\"",
            _ => "font-size=\"11\" fill=\"#5b6770\"",
        };
        let y = first + 16.0 * number as f64;
        let line = escape(line);
        let _ = writeln!(
            text,
            "<text x=\"{middle:.1}\" y=\"{y:.1}\" {style} text-anchor=\"middle\">{line}</text>"
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
