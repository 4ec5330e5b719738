//! Rotated boxes of text from a map of probabilities (DBNet, as PaddleOCR computes them).

use std::{cmp::Ordering, collections::BTreeMap};

/// Most regions of a map.
const MAX_REGIONS: usize = 1000;

/// Least side of a box in pixels of the map, before it grows.
const MIN_SIDE: f64 = 3.0;

/// A point of a map or an image.
pub(crate) type Point = [f64; 2];

/// A box in any rotation: its corners clockwise, the first at the top left of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quad {
    pub(crate) corners: [Point; 4],
    /// Mean of the probabilities inside, before the box grows.
    pub(crate) score: f32,
}

/// Settings of [`find_regions`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegionSettings {
    /// Probability above which a pixel is text.
    pub(crate) threshold: f32,
    /// Least score of a box.
    pub(crate) score: f32,
    /// Growth of each side: this factor times the area, divided by the perimeter.
    pub(crate) unclip: f64,
}

pub(super) fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

pub(super) fn cross(a: Point, b: Point) -> f64 {
    a[0] * b[1] - a[1] * b[0]
}

/// Distance of two points.
pub(crate) fn distance(a: Point, b: Point) -> f64 {
    let [x, y] = minus(a, b);
    x.hypot(y)
}

/// Boxes of text in `map`, which has `width` columns. Coordinates are those of its pixels, the corner
/// of the first one at zero.
pub(crate) fn find_regions(map: &[f32], width: usize, settings: &RegionSettings) -> Vec<Quad> {
    let mut regions = Vec::new();
    let height = map.len().checked_div(width).unwrap_or(0);
    for component in components([width, height], true, |index| map[index] > settings.threshold) {
        let hull = convex_hull(component.corners());
        let Some(corners) = min_area_box(&hull) else { continue };
        let score = mean_inside(map, width, &corners);
        let side = shorter_side(&corners);
        if side < MIN_SIDE || score < settings.score {
            continue;
        }
        let corners = grown(&corners, settings.unclip);
        if shorter_side(&corners) >= MIN_SIDE + 2.0 {
            regions.push(Quad { corners, score });
        }
        if regions.len() == MAX_REGIONS {
            break;
        }
    }
    regions
}

fn shorter_side(corners: &[Point; 4]) -> f64 {
    distance(corners[0], corners[1]).min(distance(corners[0], corners[3]))
}

/// A connected region.
#[derive(Debug, Default)]
pub(super) struct Component {
    /// Indices of the pixels.
    pub(super) pixels: Vec<usize>,
    /// First and last column of each row.
    pub(super) rows: BTreeMap<usize, (usize, usize)>,
}

impl Component {
    /// Corners of the pixels at the ends of the rows.
    pub(super) fn corners(&self) -> Vec<Point> {
        let corners = self.rows.iter().flat_map(|(y, (first, last))| {
            let (left, right, top) = (*first as f64, *last as f64 + 1.0, *y as f64);
            [[left, top], [right, top], [left, top + 1.0], [right, top + 1.0]]
        });
        corners.collect()
    }
}

/// Connected regions of a map of `[width, height]` pixels, in the order of their first pixels. With
/// `is_diagonal`, diagonal neighbors are connected.
pub(super) fn components(
    [width, height]: [usize; 2],
    is_diagonal: bool,
    is_inside: impl Fn(usize) -> bool,
) -> Vec<Component> {
    let mut seen = vec![false; width * height];
    let (mut found, mut stack) = (Vec::new(), Vec::new());
    for start in 0..seen.len() {
        if seen[start] || !is_inside(start) {
            continue;
        }
        seen[start] = true;
        stack.push(start);
        let mut component = Component::default();
        while let Some(pixel) = stack.pop() {
            component.pixels.push(pixel);
            let (x, y) = (pixel % width, pixel / width);
            let row = component.rows.entry(y).or_insert((x, x));
            *row = (row.0.min(x), row.1.max(x));
            for row in y.saturating_sub(1)..(y + 2).min(height) {
                for column in x.saturating_sub(1)..(x + 2).min(width) {
                    let next = row * width + column;
                    let is_near = is_diagonal || row == y || column == x;
                    if is_near && !seen[next] && is_inside(next) {
                        seen[next] = true;
                        stack.push(next);
                    }
                }
            }
        }
        found.push(component);
    }
    found
}

/// Convex hull, clockwise as seen in the image (Andrew's monotone chain).
pub(super) fn convex_hull(mut points: Vec<Point>) -> Vec<Point> {
    let order = |a: &Point, b: &Point| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1]));
    points.sort_by(order);
    points.dedup();
    if points.len() < 3 {
        return points;
    }
    let half = |points: &mut dyn Iterator<Item = Point>| {
        let mut chain: Vec<Point> = Vec::new();
        for point in points {
            while let [.., before, last] = chain[..] {
                if cross(minus(last, before), minus(point, last)) > 0.0 {
                    break;
                }
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut hull = half(&mut points.iter().copied());
    hull.extend(half(&mut points.iter().rev().copied()));
    hull
}

/// The box of least area around a convex polygon; `None` if it has no area.
pub(super) fn min_area_box(hull: &[Point]) -> Option<[Point; 4]> {
    let mut best: Option<(f64, [Point; 4])> = None;
    for (index, from) in hull.iter().enumerate() {
        let edge = minus(hull[(index + 1) % hull.len()], *from);
        let length = edge[0].hypot(edge[1]);
        if length == 0.0 {
            continue;
        }
        let along = edge.map(|value| value / length);
        let down = [-along[1], along[0]];
        let (mut least, mut most) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for point in hull {
            for (axis, direction) in [along, down].into_iter().enumerate() {
                let at = point[0] * direction[0] + point[1] * direction[1];
                least[axis] = least[axis].min(at);
                most[axis] = most[axis].max(at);
            }
        }
        let area = (most[0] - least[0]) * (most[1] - least[1]);
        // The first of several equal areas is kept, so that a replay gives the same box.
        if area > 0.0 && best.is_none_or(|(known, _)| area < known) {
            let corner = |a: f64, d: f64| [0, 1].map(|axis| a * along[axis] + d * down[axis]);
            let corners = [
                corner(least[0], least[1]),
                corner(most[0], least[1]),
                corner(most[0], most[1]),
                corner(least[0], most[1]),
            ];
            best = Some((area, corners));
        }
    }
    best.map(|(_, corners)| ordered(corners))
}

/// The corners clockwise, from the upper one of the two at the left.
fn ordered(mut corners: [Point; 4]) -> [Point; 4] {
    let by = |axis: usize| move |a: &Point, b: &Point| -> Ordering { a[axis].total_cmp(&b[axis]) };
    corners.sort_by(by(0));
    corners[..2].sort_by(by(1));
    corners[2..].sort_by(by(1));
    let [top_left, bottom_left, top_right, bottom_right] = corners;
    [top_left, top_right, bottom_right, bottom_left]
}

/// Mean of the values at the whole coordinates in a convex box, with its edges, as `box_score_fast` of
/// PaddleOCR.
fn mean_inside(map: &[f32], width: usize, corners: &[Point; 4]) -> f32 {
    let height = map.len() / width;
    let corners = corners.map(|corner| corner.map(f64::floor));
    let range = |axis: usize, limit: usize| {
        let values = corners.map(|corner| corner[axis]);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        least.max(0.0) as usize..(most.max(0.0) as usize + 1).min(limit)
    };
    let (mut sum, mut count) = (0.0_f64, 0_usize);
    for y in range(1, height) {
        for x in range(0, width) {
            let point = [x as f64, y as f64];
            let is_inside = (0..4).all(|index| {
                let (from, to) = (corners[index], corners[(index + 1) % 4]);
                // Up to half a pixel outside of an edge: it is drawn, too.
                cross(minus(to, from), minus(point, from)) >= -0.5 * distance(from, to)
            });
            if is_inside {
                sum += f64::from(map[y * width + x]);
                count += 1;
            }
        }
    }
    if count == 0 { 0.0 } else { (sum / count as f64) as f32 }
}

/// The box with each side moved out by `ratio` times its area, divided by its perimeter.
fn grown(corners: &[Point; 4], ratio: f64) -> [Point; 4] {
    let (width, height) = (distance(corners[0], corners[1]), distance(corners[0], corners[3]));
    let shift = width * height * ratio / (2.0 * (width + height));
    let direction =
        |to: Point, length: f64| minus(to, corners[0]).map(|value| value / length * shift);
    let (along, down) = (direction(corners[1], width), direction(corners[3], height));
    let mut grown = *corners;
    for (corner, (a, d)) in
        grown.iter_mut().zip([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    {
        for axis in [0, 1] {
            corner[axis] += a * along[axis] + d * down[axis];
        }
    }
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: RegionSettings = RegionSettings { threshold: 0.3, score: 0.5, unclip: 1.6 };

    /// A map of 64 x 48 with text where `is_text`.
    fn map(is_text: impl Fn(f64, f64) -> bool) -> Vec<f32> {
        let at = |index: usize| ((index % 64) as f64 + 0.5, (index / 64) as f64 + 0.5);
        (0..64 * 48).map(at).map(|(x, y)| if is_text(x, y) { 0.9 } else { 0.1 }).collect()
    }

    fn near(found: [Point; 4], expected: [Point; 4], limit: f64) {
        for (one, other) in found.into_iter().zip(expected) {
            assert!(distance(one, other) < limit, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn upright_boxes_grow_by_area_and_perimeter() {
        let map = map(|x, y| (10.0..50.0).contains(&x) && (20.0..30.0).contains(&y));
        let found = find_regions(&map, 64, &SETTINGS);
        assert_eq!(found.len(), 1);
        // 400 pixels of text, and 51 at the edges.
        assert!((found[0].score - (400.0 * 0.9 + 51.0 * 0.1) / 451.0).abs() < 1e-6);
        // 40 * 10 * 1.6 / 100.
        let [left, top, right, bottom] = [10.0 - 6.4, 20.0 - 6.4, 50.0 + 6.4, 30.0 + 6.4];
        near(found[0].corners, [[left, top], [right, top], [right, bottom], [left, bottom]], 1e-6);
    }

    #[test]
    fn rotated_boxes_are_found() {
        // Center (32, 24), 40 x 10, 20 degrees clockwise.
        let (sin, cos) = 20.0_f64.to_radians().sin_cos();
        let map = map(|x, y| {
            let (x, y) = (x - 32.0, y - 24.0);
            (cos * x + sin * y).abs() < 20.0 && (cos * y - sin * x).abs() < 5.0
        });
        let found = find_regions(&map, 64, &RegionSettings { unclip: 0.0, ..SETTINGS });
        let corner = |x: f64, y: f64| [32.0 + cos * x - sin * y, 24.0 + sin * x + cos * y];
        let expected =
            [corner(-20.0, -5.0), corner(20.0, -5.0), corner(20.0, 5.0), corner(-20.0, 5.0)];
        assert_eq!(found.len(), 1);
        near(found[0].corners, expected, 1.6);
    }

    /// A box of the reference (`tests/data/regions.py`).
    #[derive(serde::Deserialize)]
    struct Expected {
        corners: [Point; 4],
        score: f32,
    }

    #[test]
    fn boxes_are_those_of_paddleocr() {
        let mut image = afferent_messages::Image::default();
        image.read_file(include_bytes!("../../tests/data/regions.png")).unwrap();
        let maps: Vec<Vec<Expected>> =
            serde_json::from_str(include_str!("../../tests/data/regions.json")).unwrap();
        let values: Vec<f32> = image.bytes().iter().map(|byte| f32::from(*byte) / 255.0).collect();
        let (width, height) = (image.width(), image.height() / maps.len());
        let mut count = 0;
        for (map, expected) in values.chunks(width * height).zip(maps) {
            let mut found = find_regions(map, width, &SETTINGS);
            assert_eq!(found.len(), expected.len());
            found.sort_by(|one, other| one.corners[0][0].total_cmp(&other.corners[0][0]));
            for (found, expected) in found.iter().zip(expected) {
                near(found.corners, expected.corners, 1.0);
                let far = (found.score - expected.score).abs();
                assert!(far < 0.02, "{found:?} {}", expected.score);
                count += 1;
            }
        }
        assert!(count > 12, "{count}");
    }

    #[test]
    fn small_weak_and_separate_regions() {
        let two = map(|x, y| {
            (10.0..20.0).contains(&y) && !(20.0..=40.0).contains(&x)
                || (x < 3.0 && y > 40.0 && y < 42.0)
        });
        assert_eq!(find_regions(&two, 64, &SETTINGS).len(), 2, "the third is too small");
        let strict = RegionSettings { score: 0.95, ..SETTINGS };
        assert!(find_regions(&two, 64, &strict).is_empty());
        let mut weak = two;
        weak.iter_mut().for_each(|value| *value = f32::NAN);
        assert!(find_regions(&weak, 64, &SETTINGS).is_empty());
        assert!(find_regions(&[], 0, &SETTINGS).is_empty());
        // A line of one pixel has a box, but it is too thin.
        let thin = map(|x, y| (x - y).abs() < 0.1);
        assert!(find_regions(&thin, 64, &SETTINGS).is_empty());
    }
}
