//! Results as lines, outlines, points and labels, for images and for viewers.

use std::sync::Arc;

use afferent_messages::vision::{
    BodyPose, Box2d, Classes, Detections, Hands, Skeleton, TextRegions,
};

/// Red, green, blue.
pub(crate) type Color = [u8; 3];

/// Something to draw on. Points are in pixels of the source image.
pub(crate) trait Draw {
    /// A line between two points.
    fn line(&mut self, from: [f32; 2], to: [f32; 2], color: Color);
    /// A closed polygon.
    fn outline(&mut self, corners: &[[f32; 2]], color: Color);
    /// A point.
    fn dot(&mut self, at: [f32; 2], color: Color);
    /// Text above a point.
    fn label(&mut self, at: [f32; 2], text: &str, color: Color, background: Color);
    /// A line of text in the upper left corner.
    fn line_of_text(&mut self, line: usize, text: &str, color: Color, background: Color);
}

/// Landmarks of a hand that are connected.
const BONES: [[usize; 2]; 21] = [
    [0, 1],
    [1, 2],
    [2, 3],
    [3, 4],
    [0, 5],
    [5, 6],
    [6, 7],
    [7, 8],
    [5, 9],
    [9, 10],
    [10, 11],
    [11, 12],
    [9, 13],
    [13, 14],
    [14, 15],
    [15, 16],
    [13, 17],
    [17, 18],
    [18, 19],
    [19, 20],
    [0, 17],
];

/// Keypoints of COCO that are connected. Other skeletons begin with them, or are drawn as points.
const LIMBS: [[usize; 2]; 16] = [
    [0, 1],
    [0, 2],
    [1, 3],
    [2, 4],
    [5, 6],
    [5, 7],
    [7, 9],
    [6, 8],
    [8, 10],
    [5, 11],
    [6, 12],
    [11, 12],
    [11, 13],
    [13, 15],
    [12, 14],
    [14, 16],
];

/// Colors that are easy to distinguish.
pub(crate) const COLORS: [Color; 8] = [
    [255, 82, 82],
    [64, 196, 255],
    [105, 240, 174],
    [255, 215, 64],
    [224, 64, 251],
    [255, 145, 0],
    [83, 109, 254],
    [178, 255, 89],
];

pub(crate) const TEXT: Color = [255, 255, 255];

/// The color of a number.
pub(crate) fn color_of(number: u64) -> Color {
    COLORS[(number % COLORS.len() as u64) as usize]
}

/// The color of a name: always the same.
pub(crate) fn color_of_name(name: &str) -> Color {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    color_of(hash >> 32)
}

/// Draws bodies as their limbs and keypoints.
pub(crate) fn draw_bodies(canvas: &mut impl Draw, found: &BodyPose) {
    let has_coco = !matches!(found.skeleton, Skeleton::BlazePose33);
    for (number, body) in found.bodies.iter().enumerate() {
        let color = color_of(body.track.unwrap_or(number as u64));
        let seen = |keypoint: usize| {
            let found = body.keypoints.get(keypoint).filter(|keypoint| keypoint.score > 0.0);
            found.map(|keypoint| keypoint.position)
        };
        for [from, to] in LIMBS.into_iter().filter(|_| has_coco) {
            if let (Some(from), Some(to)) = (seen(from), seen(to)) {
                canvas.line(from, to, color);
            }
        }
        (0..body.keypoints.len()).filter_map(seen).for_each(|point| canvas.dot(point, TEXT));
    }
}

fn draw_box(canvas: &mut impl Draw, bounds: &Box2d, color: Color, label: &str) {
    let corners = bounds.corners();
    canvas.outline(&corners, color);
    // Above the box, and within the image.
    let top = |axis: usize| corners.iter().map(|corner| corner[axis]).fold(f32::INFINITY, f32::min);
    canvas.label([top(0), top(1)], label, TEXT, color);
}

/// Draws boxes with their labels.
pub(crate) fn draw_detections(canvas: &mut impl Draw, found: &Detections) {
    for detection in &found.detections {
        let label: Arc<str> = detection.label.clone();
        let score = (detection.score * 100.0).round();
        let (color, label) = match detection.track {
            Some(track) => (color_of(track), format!("{label} {track}  {score} %")),
            None => (color_of_name(&label), format!("{label}  {score} %")),
        };
        draw_box(canvas, &detection.bounds, color, &label);
    }
}

/// Draws hands as their bones.
pub(crate) fn draw_hands(canvas: &mut impl Draw, found: &Hands) {
    for (number, hand) in found.hands.iter().enumerate() {
        let color = color_of(number as u64);
        let at = |landmark: usize| {
            let [x, y, _] = hand.landmarks[landmark];
            [x, y]
        };
        for [from, to] in BONES {
            canvas.line(at(from), at(to), color);
        }
        (0..hand.landmarks.len()).for_each(|landmark| canvas.dot(at(landmark), TEXT));
    }
}

/// Draws the outlines of text, with the words.
pub(crate) fn draw_texts(canvas: &mut impl Draw, found: &TextRegions) {
    for region in &found.regions {
        let color = color_of_name("text");
        canvas.outline(&region.corners, color);
        canvas.label(region.corners[0], &region.text, TEXT, color);
    }
}

/// Lists the classes of an image.
pub(crate) fn draw_classes(canvas: &mut impl Draw, found: &Classes) {
    for (line, class) in found.classes.iter().take(5).enumerate() {
        let text = format!("{}  {} %", class.label, (class.score * 100.0).round());
        canvas.line_of_text(line, &text, TEXT, color_of_name(&class.label));
    }
}
