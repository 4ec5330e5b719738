//! Pairs of two lists at the lowest cost.

/// Pairs each row of `costs` with a column so that the sum of the costs is the lowest (the Hungarian
/// method, with the time of the cube of the longer side). Rows and columns left over have no partner,
/// and neither have pairs of a cost above `limit`. Returns the pairs in the order of the rows.
///
/// All rows have the same length, and costs are finite.
pub(crate) fn assign(costs: &[Vec<f32>], limit: f32) -> Vec<(usize, usize)> {
    let rows = costs.len();
    let columns = costs.first().map_or(0, Vec::len);
    let size = rows.max(columns);
    // A pair above the limit is as good as none.
    let cost = |row: usize, column: usize| {
        let found = costs.get(row).and_then(|row| row.get(column));
        f64::from(found.map_or(limit, |cost| cost.min(limit)))
    };
    // Potentials of rows and columns, and the row of each column; all count from 1.
    let (mut u, mut v) = (vec![0.0; size + 1], vec![0.0; size + 1]);
    let mut row_of = vec![0; size + 1];
    for row in 1..=size {
        row_of[0] = row;
        let mut column = 0;
        let mut least = vec![f64::INFINITY; size + 1];
        let mut used = vec![false; size + 1];
        let mut before = vec![0; size + 1];
        while row_of[column] != 0 {
            used[column] = true;
            let current = row_of[column];
            let (mut delta, mut next) = (f64::INFINITY, 0);
            for to in (1..=size).filter(|to| !used[*to]) {
                let reduced = cost(current - 1, to - 1) - u[current] - v[to];
                if reduced < least[to] {
                    (least[to], before[to]) = (reduced, column);
                }
                if least[to] < delta {
                    (delta, next) = (least[to], to);
                }
            }
            for to in 0..=size {
                if used[to] {
                    u[row_of[to]] += delta;
                    v[to] -= delta;
                } else {
                    least[to] -= delta;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut pairs: Vec<_> = (1..=columns)
        .map(|column| (row_of[column] - 1, column - 1))
        .filter(|(row, column)| costs.get(*row).is_some_and(|row| row[*column] < limit))
        .collect();
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lowest sum by trying all, where a row may stay alone at the cost of `limit`.
    fn lowest(costs: &[Vec<f32>], limit: f32, used: u32) -> f32 {
        let Some((row, rest)) = costs.split_first() else { return 0.0 };
        let pair = |(column, cost): (usize, &f32)| {
            let is_free = used & (1 << column) == 0;
            is_free.then(|| cost.min(limit) + lowest(rest, limit, used | 1 << column))
        };
        let paired = row.iter().enumerate().filter_map(pair).fold(f32::INFINITY, f32::min);
        paired.min(limit + lowest(rest, limit, used))
    }

    #[test]
    fn pairs_have_the_lowest_cost() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let (rows, columns) = (random.usize(0..6), random.usize(0..6));
            let costs: Vec<Vec<f32>> =
                (0..rows).map(|_| (0..columns).map(|_| random.f32()).collect()).collect();
            let limit = random.f32();
            let pairs = assign(&costs, limit);
            assert!(pairs.is_sorted_by(|one, other| one.0 < other.0), "a row has one partner");
            let mut used: Vec<_> = pairs.iter().map(|pair| pair.1).collect();
            used.sort_unstable();
            assert!(used.is_sorted_by(|one, other| one < other), "a column has one partner");
            let paired: f32 = pairs.iter().map(|(row, column)| costs[*row][*column]).sum();
            let found = paired + limit * (rows - pairs.len()) as f32;
            assert!((found - lowest(&costs, limit, 0)).abs() < 1e-4, "{costs:?} {limit}");
        }
    }
}
