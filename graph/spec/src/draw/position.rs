//! Horizontal positions: each item as near to its neighbors above and below as the order permits.

/// Sweeps down and up.
const SWEEPS: usize = 12;
/// Least distance of the reserved spaces of two items, in pixels.
pub(crate) const GAP: f64 = 8.0;

/// Wish of two linked items to have their ports in a vertical line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pull {
    pub(crate) upper: usize,
    pub(crate) lower: usize,
    /// Position of the upper port minus that of the lower one, relative to the centers.
    pub(crate) offset: f64,
}

/// Items of each layer from left to right, with reserved space and links.
pub(crate) struct Placing<'a> {
    pub(crate) layers: &'a [Vec<usize>],
    /// Space at the left and right of each center.
    pub(crate) extents: &'a [(f64, f64)],
    /// Resistance of each item against being moved by its neighbors.
    pub(crate) weights: &'a [f64],
    /// Links to each layer from the one above.
    pub(crate) pulls: &'a [Vec<Pull>],
    /// Items that a net passes, from top to bottom.
    pub(crate) chains: &'a [Vec<usize>],
    /// Column of each item.
    pub(crate) columns: &'a [usize],
    /// Range of each column, exceeded if a layer needs more.
    pub(crate) ranges: &'a [(f64, f64)],
}

impl Placing<'_> {
    /// Center of each item.
    pub(crate) fn centers(&self) -> Vec<f64> {
        let middle = |column: &usize| f64::midpoint(self.ranges[*column].0, self.ranges[*column].1);
        let mut centers: Vec<f64> = self.columns.iter().map(middle).collect();
        for layer in self.layers {
            self.settle(layer, &mut centers);
        }
        let count = self.layers.len();
        for sweep in 0..SWEEPS {
            let last = sweep + 1 == SWEEPS;
            for step in 0..count {
                let down = last || sweep % 2 == 0;
                let layer = if down { step } else { count - 1 - step };
                let above = self.pulls.get(layer).filter(|_| down).into_iter().flatten();
                let below = self.pulls.get(layer + 1).filter(|_| !down || last);
                let below = below.into_iter().flatten();
                let wishes = above
                    .map(|pull| (pull.lower, centers[pull.upper] + pull.offset))
                    .chain(below.map(|pull| (pull.upper, centers[pull.lower] - pull.offset)));
                let mut wishes: Vec<(usize, f64)> = wishes.collect();
                wishes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
                for same in wishes.chunk_by(|a, b| a.0 == b.0) {
                    let (low, high) = (same[(same.len() - 1) / 2].1, same[same.len() / 2].1);
                    centers[same[0].0] = f64::midpoint(low, high);
                }
                self.settle(&self.layers[layer], &mut centers);
            }
        }
        for chain in self.chains.iter().chain(self.chains) {
            self.align(chain, &mut centers);
        }
        centers
    }

    /// Moves the items of a chain to as few vertical lines as the free space permits.
    fn align(&self, chain: &[usize], centers: &mut [f64]) {
        let free: Vec<(f64, f64)> = chain.iter().map(|item| self.free(*item, centers)).collect();
        let pulls = self.pulls.iter().flatten();
        let mut targets: Vec<f64> = pulls
            .clone()
            .filter(|pull| Some(&pull.lower) == chain.first())
            .map(|pull| centers[pull.upper] + pull.offset)
            .collect();
        let below = pulls.filter(|pull| Some(&pull.upper) == chain.last());
        targets.extend(below.map(|pull| centers[pull.lower] - pull.offset));
        let mut start = 0;
        while start < chain.len() {
            let (mut low, mut high) = free[start];
            let mut end = start + 1;
            while let Some((next_low, next_high)) = free.get(end)
                && low.max(*next_low) <= high.min(*next_high)
            {
                (low, high) = (low.max(*next_low), high.min(*next_high));
                end += 1;
            }
            let inside = targets.iter().find(|x| low <= **x && **x <= high);
            let nearest = targets.first().map_or(low, |x| x.max(low).min(high));
            let x = inside.copied().unwrap_or(nearest);
            chain[start..end].iter().for_each(|item| centers[*item] = x);
            targets.insert(0, x);
            start = end;
        }
    }

    /// Range of an item between its neighbors.
    fn free(&self, item: usize, centers: &[f64]) -> (f64, f64) {
        let (left, right) = self.extents[item];
        let index_in = |layer: &&Vec<usize>| layer.iter().position(|other| *other == item);
        let found = self.layers.iter().find_map(|layer| Some((layer, index_in(&layer)?)));
        let Some((layer, at)) = found else { return (centers[item], centers[item]) };
        let column = self.columns[item];
        let is_same = |other: &&usize| self.columns[**other] == column;
        let (start, end) = self.ranges[column];
        let before = at.checked_sub(1).and_then(|before| layer.get(before)).filter(is_same);
        let low = before
            .map_or(start + left, |before| centers[*before] + self.extents[*before].1 + GAP + left);
        let high = layer
            .get(at + 1)
            .filter(is_same)
            .map_or(end - right, |after| centers[*after] - self.extents[*after].0 - GAP - right);
        (low.min(centers[item]), high.max(centers[item]))
    }

    /// Moves the items of a layer apart, as little as possible (weighted sum of
    /// squares), by pooling adjacent violators.
    fn settle(&self, layer: &[usize], centers: &mut [f64]) {
        for items in layer.chunk_by(|a, b| self.columns[*a] == self.columns[*b]) {
            self.settle_column(items, centers);
        }
    }

    fn settle_column(&self, layer: &[usize], centers: &mut [f64]) {
        let Some((low, high)) = layer.first().map(|item| self.ranges[self.columns[*item]]) else {
            return;
        };
        let mut offsets = Vec::new();
        let mut end = 0.0;
        for item in layer {
            let (left, right) = self.extents[*item];
            offsets.push(end + left);
            end += left + right + GAP;
        }
        // Blocks of items that touch each other: weighted sum of the wishes, weight, and number of
        // items.
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
        for (item, offset) in layer.iter().zip(&offsets) {
            let weight = self.weights[*item];
            blocks.push((weight * (centers[*item] - low - offset), weight, 1));
            while let [.., before, last] = blocks.as_slice()
                && before.0 / before.1 > last.0 / last.1
            {
                let joined = (before.0 + last.0, before.1 + last.1, before.2 + last.2);
                blocks.truncate(blocks.len() - 2);
                blocks.push(joined);
            }
        }
        let free = (high - low - end + GAP).max(0.0);
        let starts = blocks.iter().flat_map(|(sum, weight, count)| {
            let start = (sum / weight).clamp(0.0, free);
            std::iter::repeat_n(start, *count)
        });
        for ((item, offset), start) in layer.iter().zip(&offsets).zip(starts) {
            centers[*item] = low + start + offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_move_apart_around_their_wish() {
        let (layers, extents) = ([vec![0], vec![1, 2]], [(10.0, 10.0); 3]);
        let pull = |lower| Pull { upper: 0, lower, offset: 0.0 };
        let pulls = [vec![], vec![pull(1), pull(2)]];
        let placing = |weights| Placing {
            layers: &layers,
            extents: &extents,
            weights,
            pulls: &pulls,
            chains: &[],
            columns: &[0; 3],
            ranges: &[(0.0, 200.0)],
        };
        assert_eq!(placing(&[1.0; 3]).centers(), [100.0, 86.0, 114.0]);
        let mut centers = [100.0; 3];
        placing(&[1.0, 1.0, 1e9]).settle(&[1, 2], &mut centers);
        assert!((centers[2] - 100.0).abs() < 0.1, "the heavier item stays: {centers:?}");
    }

    #[test]
    fn a_chain_is_straight() {
        // The net passes two layers beside a box; its ends are at 100 and 20.
        let layers = [vec![0], vec![1, 2], vec![3], vec![4]];
        let extents = [(10.0, 10.0), (5.0, 5.0), (30.0, 30.0), (5.0, 5.0), (10.0, 10.0)];
        let pull = |upper, lower| Pull { upper, lower, offset: 0.0 };
        let pulls = [vec![], vec![pull(0, 1), pull(0, 2)], vec![pull(1, 3)], vec![pull(3, 4)]];
        let (weights, chains) = (&[1.0; 5], &[vec![1, 3]]);
        let placing = Placing {
            layers: &layers,
            extents: &extents,
            weights,
            pulls: &pulls,
            chains,
            columns: &[0; 5],
            ranges: &[(0.0, 200.0)],
        };
        let centers = placing.centers();
        assert!((centers[1] - centers[3]).abs() < 1e-9, "{centers:?}");
        assert!(centers[2] - centers[1] >= 5.0 + GAP + 30.0 - 1e-9, "{centers:?}");
    }

    #[test]
    fn a_layer_wider_than_the_drawing_starts_at_the_left() {
        let layers = [vec![0, 1]];
        let extents = [(30.0, 30.0), (20.0, 20.0)];
        let placing = Placing {
            layers: &layers,
            extents: &extents,
            weights: &[1.0; 2],
            pulls: &[],
            chains: &[],
            columns: &[0; 2],
            ranges: &[(0.0, 50.0)],
        };
        assert_eq!(placing.centers(), [30.0, 88.0]);
    }

    #[test]
    fn items_stay_in_their_column() {
        let (layers, extents) = ([vec![0], vec![1, 2]], [(10.0, 10.0); 3]);
        let pull = |lower| Pull { upper: 0, lower, offset: 0.0 };
        let pulls = [vec![], vec![pull(1), pull(2)]];
        let placing = Placing {
            layers: &layers,
            extents: &extents,
            weights: &[1.0; 3],
            pulls: &pulls,
            chains: &[],
            columns: &[0, 0, 1],
            ranges: &[(0.0, 60.0), (80.0, 140.0)],
        };
        assert_eq!(placing.centers(), [50.0, 50.0, 90.0]);
    }
}
