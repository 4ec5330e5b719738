//! Geometry of an SVG drawing, read back from its text.

/// A rectangle: left, top, right, bottom.
type Area = [f64; 4];

/// Boxes, texts and lines of a drawing.
#[derive(Debug, Default)]
pub(crate) struct Diagram {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) boxes: Vec<Area>,
    /// Frames of machines and processes, and their titles.
    pub(crate) frames: Vec<Area>,
    pub(crate) titles: Vec<(String, Area)>,
    /// Labels of edges.
    pub(crate) labels: Vec<(String, Area)>,
    /// Lines of text in boxes.
    names: Vec<(String, Area)>,
    /// Points of each edge; corners are points.
    pub(crate) edges: Vec<Vec<(f64, f64)>>,
    font_sizes: Vec<f64>,
}

impl Diagram {
    pub(crate) fn parse(svg: &str) -> Self {
        let mut diagram = Self::default();
        for element in svg.lines() {
            let number = |name: &str| attribute(element, name).and_then(|text| text.parse().ok());
            let at = |name: &str| -> f64 { number(name).unwrap_or(f64::NAN) };
            if element.starts_with("<svg ") {
                (diagram.width, diagram.height) = (at("width"), at("height"));
            } else if element.starts_with("<rect x=") {
                let (x, y) = (at("x"), at("y"));
                diagram.boxes.push([x, y, x + at("width"), y + at("height")]);
            } else if element.starts_with("<rect class=\"frame\"") {
                let (x, y) = (at("x"), at("y"));
                diagram.frames.push([x, y, x + at("width"), y + at("height")]);
            } else if element.starts_with("<path class=\"edge\"") {
                diagram.edges.push(points(attribute(element, "d").unwrap_or_default()));
            } else if element.starts_with("<text ") {
                let size = at("font-size");
                diagram.font_sizes.push(size);
                let text = element.split(['<', '>']).nth(2).unwrap_or_default();
                // Mean width of the characters of DejaVu Sans.
                let width = 0.6 * size * text.chars().count() as f64;
                let class = attribute(element, "class");
                let is_label = class.is_some();
                let (x, y) = (at("x") - if is_label { 0.0 } else { width / 2.0 }, at("y"));
                let area = [x, y - 0.75 * size, x + width, y + 0.2 * size];
                let list = match class {
                    Some("frame") => &mut diagram.titles,
                    Some(_) => &mut diagram.labels,
                    None => &mut diagram.names,
                };
                list.push((text.to_owned(), area));
            }
        }
        diagram
    }

    /// Violated rules: everything is legible, inside of the drawing, and apart.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let page = [0.0, 0.0, self.width, self.height];
        faults
            .extend(self.font_sizes.iter().filter(|size| **size < 11.0).map(|s| format!("{s} px")));
        let texts = self.labels.iter().chain(&self.names).chain(&self.titles);
        let areas = texts.map(|(text, area)| (text.as_str(), *area));
        for (name, area) in
            areas.chain(self.boxes.iter().chain(&self.frames).map(|area| ("box", *area)))
        {
            if !contains(page, area) {
                faults.push(format!("{name} {area:?} is outside of the drawing"));
            }
        }
        for (index, area) in self.boxes.iter().enumerate() {
            if self.boxes[..index].iter().any(|other| overlap(*area, *other)) {
                faults.push(format!("box {area:?} overlaps another"));
            }
        }
        for (text, area) in &self.names {
            if !self.boxes.iter().any(|found| contains(*found, *area)) {
                faults.push(format!("text {text:?} exceeds its box"));
            }
        }
        for (index, (text, area)) in self.labels.iter().enumerate() {
            if self.boxes.iter().any(|found| overlap(*found, *area)) {
                faults.push(format!("label {text:?} overlaps a box"));
            }
            if let Some((other, _)) =
                self.labels[..index].iter().find(|(_, other)| overlap(*other, *area))
            {
                faults.push(format!("labels {text:?} and {other:?} overlap"));
            }
        }
        self.line_faults(&mut faults);
        self.frame_faults(&mut faults);
        faults
    }

    /// Frames are nested or apart, cut nothing, and have legible titles.
    fn frame_faults(&self, faults: &mut Vec<String>) {
        let parts = self.labels.iter().chain(&self.names).chain(&self.titles);
        let parts = parts.map(|(text, area)| (text.as_str(), *area));
        let parts: Vec<_> = parts.chain(self.boxes.iter().map(|area| ("box", *area))).collect();
        for (index, frame) in self.frames.iter().enumerate() {
            let others = self.frames[..index].iter().map(|area| ("frame", *area));
            for (name, area) in parts.iter().copied().chain(others) {
                let is_apart = contains(*frame, area) || contains(area, *frame);
                if !is_apart && overlap(*frame, area) {
                    faults.push(format!("frame {frame:?} cuts {name} {area:?}"));
                }
            }
            for pair in self.edges.iter().flat_map(|points| points.windows(2)) {
                let near = |a: f64, b: f64| (a - b).abs() < 2.0;
                let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
                let along = (near(x, to_x) && (near(x, frame[0]) || near(x, frame[2])))
                    || (near(y, to_y) && (near(y, frame[1]) || near(y, frame[3])));
                let line = [x.min(to_x), y.min(to_y), x.max(to_x), y.max(to_y)];
                let around = [frame[0] - 2.0, frame[1] - 2.0, frame[2] + 2.0, frame[3] + 2.0];
                if along && overlap(around, line) {
                    faults.push(format!("line {pair:?} runs along frame {frame:?}"));
                }
            }
        }
        for (index, (title, area)) in self.titles.iter().enumerate() {
            let others = parts.iter().filter(|(_, other)| overlap(*other, *area)).count();
            if others > 1 {
                faults.push(format!("title {title:?} overlaps another part"));
            }
            if !self.frames.get(index).is_some_and(|frame| contains(*frame, *area)) {
                faults.push(format!("title {title:?} exceeds its frame"));
            }
        }
    }

    fn line_faults(&self, faults: &mut Vec<String>) {
        for points in &self.edges {
            if !points.last().is_some_and(|end| self.boxes.iter().any(|area| on_top(*area, *end))) {
                faults.push(format!("line {points:?} ends at no box"));
            }
            for pair in points.windows(2) {
                let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
                if (x - to_x).abs() > 0.2 && (y - to_y).abs() > 0.2 {
                    faults.push(format!("line {pair:?} is neither horizontal nor vertical"));
                }
                let line = [x.min(to_x), y.min(to_y), x.max(to_x), y.max(to_y)];
                if self.boxes.iter().any(|area| overlap(*area, line)) {
                    faults.push(format!("line {pair:?} crosses a box"));
                }
                let mut texts = self.labels.iter().chain(&self.titles);
                if let Some((text, _)) = texts.find(|(_, area)| overlap(*area, line)) {
                    faults.push(format!("line {pair:?} crosses label {text:?}"));
                }
            }
        }
    }
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = element.split_once(&format!(" {name}=\""))?;
    Some(rest.split_once('"')?.0)
}

/// Corners of a path of lines and quadratic curves.
fn points(path: &str) -> Vec<(f64, f64)> {
    let numbers: Vec<f64> = path
        .split(|c: char| c.is_ascii_alphabetic() || c == ' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()
}

pub(crate) fn contains(outer: Area, inner: Area) -> bool {
    outer[0] <= inner[0] && outer[1] <= inner[1] && inner[2] <= outer[2] && inner[3] <= outer[3]
}

/// True if the areas have more than a border in common.
fn overlap(a: Area, b: Area) -> bool {
    let border = 0.3;
    a[0] + border < b[2] && b[0] + border < a[2] && a[1] + border < b[3] && b[1] + border < a[3]
}

fn on_top(area: Area, (x, y): (f64, f64)) -> bool {
    area[0] <= x && x <= area[2] && (y - area[1]).abs() < 0.2
}
