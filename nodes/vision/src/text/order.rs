//! Reading order of lines.

use afferent_messages::vision::TextRegion;

fn center(region: &TextRegion, axis: usize) -> f32 {
    region.corners.iter().map(|corner| corner[axis]).sum::<f32>() / 4.0
}

/// Height of the text.
fn height(region: &TextRegion) -> f32 {
    let [[x, y], _, _, [below_x, below_y]] = region.corners;
    (x - below_x).hypot(y - below_y)
}

/// Sorts regions from top to bottom, and those on a line from left to right. Two regions are on a line
/// if their centers differ by less than half of the smaller height.
pub(crate) fn sort_for_reading(regions: &mut [TextRegion]) {
    regions.sort_by(|one, other| center(one, 1).total_cmp(&center(other, 1)));
    let mut start = 0;
    while start < regions.len() {
        let mut end = start + 1;
        while end < regions.len() {
            let (one, other) = (&regions[end - 1], &regions[end]);
            if center(other, 1) - center(one, 1) >= height(one).min(height(other)) / 2.0 {
                break;
            }
            end += 1;
        }
        regions[start..end].sort_by(|one, other| center(one, 0).total_cmp(&center(other, 0)));
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_from_left_to_right_and_down() {
        let region = |text: &str, x: f32, y: f32| TextRegion {
            corners: [[x, y], [x + 50.0, y], [x + 50.0, y + 20.0], [x, y + 20.0]],
            text: text.to_owned(),
            ..TextRegion::default()
        };
        let mut regions = vec![
            region("d", 10.0, 41.0),
            region("b", 200.0, 9.0),
            region("c", 300.0, 12.0),
            region("a", 10.0, 14.0),
            region("e", 100.0, 55.0),
        ];
        sort_for_reading(&mut regions);
        let texts: Vec<_> = regions.iter().map(|region| region.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c", "d", "e"]);
    }
}
