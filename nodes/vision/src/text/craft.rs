//! Lines of text from maps of characters and links (CRAFT, as react-native-executorch reads them).

use super::regions::{
    Component, Point, Quad, components, convex_hull, cross, distance, min_area_box, minus,
};

/// Least pixels of a word.
const MIN_AREA: usize = 10;
/// Side of the image for which the lengths below hold.
const IMAGE_SIDE: f64 = 1280.0;
/// Least sides of a line.
const MIN_SHORT_SIDE: f64 = 15.0;
const MIN_LONG_SIDE: f64 = 30.0;
/// Length of a line from which on it takes no more words.
const MAX_LONG_SIDE: f64 = 588.0;
/// Greatest distance of the center of a word from the middle of its line, relative to its height.
const MAX_CENTER_DISTANCE: f64 = 0.5;
/// Greatest distance of a word from its line, and greatest difference of their heights, relative to its
/// height.
const MAX_DISTANCE: f64 = 2.0;
const MAX_HEIGHT_DIFFERENCE: f64 = 2.0;
/// Most words of an image.
const MAX_WORDS: usize = 1000;

/// Settings of [`find_lines`].
#[derive(Debug, Clone, Copy)]
pub(super) struct CraftSettings {
    /// Value above which a pixel belongs to a character.
    pub(super) text: f32,
    /// Value above which a pixel links two characters.
    pub(super) link: f32,
    /// Least of the greatest values of the pixels of a word.
    pub(super) peak: f32,
}

/// Lines of text in `maps`: for each pixel of `width` columns, the values of text and link. Coordinates are
/// those of the pixels, the corner of the first one at zero.
pub(super) fn find_lines(maps: &[f32], width: usize, settings: &CraftSettings) -> Vec<Quad> {
    let height = maps.len() / 2 / width.max(1);
    let unit = width.max(height) as f64 / IMAGE_SIDE;
    group(find_words(maps, width, settings), unit)
}

/// Boxes of words: connected characters and links.
fn find_words(maps: &[f32], width: usize, settings: &CraftSettings) -> Vec<Quad> {
    let is_text =
        |index: usize| maps[2 * index] > settings.text || maps[2 * index + 1] > settings.link;
    let size = [width, maps.len() / 2 / width.max(1)];
    let words = components(size, false, is_text).into_iter().filter_map(|component| {
        let peak = component.pixels.iter().map(|index| maps[2 * index]).fold(0.0, f32::max);
        let is_word = component.pixels.len() >= MIN_AREA && peak >= settings.peak;
        let corners = is_word.then(|| min_area_box(&convex_hull(dilated(&component, size))))?;
        Some(Quad { corners: corners?, score: peak })
    });
    words.take(MAX_WORDS).collect()
}

/// Corners of a component that is dilated in proportion to the width of its stroke.
fn dilated(component: &Component, size: [usize; 2]) -> Vec<Point> {
    let left = component.rows.values().map(|(first, _)| *first).min().unwrap_or(0);
    let right = component.rows.values().map(|(_, last)| *last).max().unwrap_or(0);
    let longest = (right - left + 1).max(component.rows.len());
    let radius = ((component.pixels.len() as f64 / longest as f64).sqrt() * 2.0).floor();
    // A kernel of `radius` + 1 pixels around its anchor, as OpenCV dilates.
    let (before, after) = ((radius / 2.0).floor(), (radius / 2.0).ceil());
    let limit = size.map(|side| side as f64);
    // The hull keeps the outer ones.
    component
        .corners()
        .iter()
        .flat_map(|[x, y]| {
            [[-before, -before], [after, -before], [after, after], [-before, after]]
                .map(|[dx, dy]| [(x + dx).clamp(0.0, limit[0]), (y + dy).clamp(0.0, limit[1])])
        })
        .collect()
}

fn center(quad: &Quad) -> Point {
    [0, 1].map(|axis| quad.corners.iter().map(|corner| corner[axis]).sum::<f64>() / 4.0)
}

/// Lengths of the upper side and of the left side.
fn sides(quad: &Quad) -> [f64; 2] {
    let [a, b, _, d] = quad.corners;
    [distance(a, b), distance(a, d)]
}

fn short_side(quad: &Quad) -> f64 {
    let [width, height] = sides(quad);
    width.min(height)
}

fn long_side(quad: &Quad) -> f64 {
    let [width, height] = sides(quad);
    width.max(height)
}

/// Joins words to lines, the longest first. `unit` is the length of a pixel of the largest image.
fn group(mut words: Vec<Quad>, unit: f64) -> Vec<Quad> {
    words.sort_by(|one, other| long_side(other).total_cmp(&long_side(one)));
    let mut lines = Vec::new();
    while !words.is_empty() {
        let mut line = words.remove(0);
        while let Some(index) = next_word(&line, &words) {
            line = joined(&line, &words.remove(index));
            if long_side(&line) > MAX_LONG_SIDE * unit {
                break;
            }
        }
        lines.push(line);
    }
    lines.retain(|line| {
        short_side(line) > MIN_SHORT_SIDE * unit && long_side(line) > MIN_LONG_SIDE * unit
    });
    lines
}

/// Index of the nearest of `words` that continues `line`.
fn next_word(line: &Quad, words: &[Quad]) -> Option<usize> {
    let [a, b, _, d] = line.corners;
    let [width, height] = sides(line);
    let along = if width >= height { minus(b, a) } else { minus(d, a) };
    let length = along[0].hypot(along[1]);
    let middle = center(line);
    let is_next = |word: &Quad| {
        let size = short_side(word);
        let offset = cross(along, minus(center(word), middle)).abs() / length;
        let pairs = line.corners.iter().flat_map(|one| word.corners.map(|other| (*one, other)));
        let gap = pairs.map(|(one, other)| distance(one, other)).fold(f64::INFINITY, f64::min);
        offset < MAX_CENTER_DISTANCE * size
            && gap < MAX_DISTANCE * size
            && (short_side(line) - size).abs() < MAX_HEIGHT_DIFFERENCE * size
    };
    let near = words.iter().enumerate().filter(|(_, word)| is_next(word));
    let distance_to = |word: &Quad| distance(center(word), middle);
    let nearest =
        near.min_by(|(_, one), (_, other)| distance_to(one).total_cmp(&distance_to(other)));
    nearest.map(|(index, _)| index)
}

/// The box around two boxes, in the direction of the first.
fn joined(line: &Quad, word: &Quad) -> Quad {
    let [a, b, _, d] = line.corners;
    let [width, height] = sides(line);
    let (along, down) = (minus(b, a).map(|v| v / width), minus(d, a).map(|v| v / height));
    let (mut least, mut most) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for corner in line.corners.iter().chain(&word.corners) {
        for (axis, direction) in [along, down].into_iter().enumerate() {
            let at = corner[0] * direction[0] + corner[1] * direction[1];
            (least[axis], most[axis]) = (least[axis].min(at), most[axis].max(at));
        }
    }
    let corner = |x: f64, y: f64| [0, 1].map(|axis| x * along[axis] + y * down[axis]);
    let corners = [
        corner(least[0], least[1]),
        corner(most[0], least[1]),
        corner(most[0], most[1]),
        corner(least[0], most[1]),
    ];
    Quad { corners, score: line.score.max(word.score) }
}
