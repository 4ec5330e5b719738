//! Planes in a depth map, by RANSAC.
//!
//! The world has z up, so that a horizontal plane has one unknown, its height, and a vertical one two. That
//! makes the search short, and tilted planes do not arise from noise.

use fastrand::Rng;
use glam::{DVec2, DVec3};

/// Points of a depth map in the world, in rows.
pub(crate) struct PointGrid {
    columns: usize,
    cells: Vec<Option<Cell>>,
}

/// A point, and the normal of the surface there.
#[derive(Clone, Copy)]
struct Cell {
    point: DVec3,
    normal: DVec3,
    /// Distance from a plane up to which the point may belong to it, in meters.
    tolerance_m: f64,
}

/// Points of a plane that touch each other in the depth map.
#[derive(Debug, Clone)]
pub(crate) struct FittedPlane {
    /// Unit normal, to the side of the camera: vertical or horizontal.
    pub(crate) normal: DVec3,
    /// The points.
    pub(crate) points: Vec<DVec3>,
}

/// Share of the vertical in the normal of a surface: from here on it is horizontal, and up to there vertical.
const HORIZONTAL: f64 = 0.8;
const VERTICAL: f64 = 0.45;

/// Cosine of the angle between the normals of a point and of its plane.
const SAME_DIRECTION: f64 = 0.75;

/// Random planes that are tried for each one that is found.
const TRIES: usize = 48;

/// Distance of the two points of a vertical plane, in meters: nearer ones do not tell its direction.
const LEAST_APART_M: f64 = 0.3;

/// Most planes of an image, horizontal and vertical.
const MAX_PLANES: usize = 6;

impl PointGrid {
    /// The grid of these points, in rows of `columns`, as a camera sees them. The tolerance is a share of the
    /// distance.
    pub(crate) fn new(
        columns: usize,
        points: &[Option<DVec3>],
        camera: DVec3,
        tolerance: f64,
    ) -> Self {
        let at = |index: usize| points.get(index).copied().flatten();
        let cell = |index: usize| {
            let (point, column) = (at(index)?, index % columns);
            if column == 0 || column + 1 == columns || index < columns {
                return None;
            }
            let along = at(index + 1)? - at(index - 1)?;
            let down = at(index + columns)? - at(index - columns)?;
            let normal = along.cross(down).try_normalize()?;
            let to_camera = camera - point;
            let normal = if normal.dot(to_camera) < 0.0 { -normal } else { normal };
            Some(Cell { point, normal, tolerance_m: tolerance * to_camera.length() })
        };
        Self { columns, cells: (0..points.len()).map(cell).collect() }
    }

    /// Finds planes with at least `least` points, the largest first.
    pub(crate) fn planes(mut self, least: usize) -> Vec<FittedPlane> {
        // The same planes for the same points.
        let mut rng = Rng::with_seed(7);
        let mut found = Vec::new();
        for is_horizontal in [true, false] {
            for _ in 0..MAX_PLANES {
                let Some(plane) = self.take_plane(is_horizontal, least, &mut rng) else { break };
                found.push(plane);
            }
        }
        found.sort_by_key(|plane: &FittedPlane| std::cmp::Reverse(plane.points.len()));
        found
    }

    /// Takes the points of the largest plane out of the grid.
    fn take_plane(
        &mut self,
        is_horizontal: bool,
        least: usize,
        rng: &mut Rng,
    ) -> Option<FittedPlane> {
        let cells =
            self.cells.iter().enumerate().filter_map(|(index, cell)| Some((index, (*cell)?)));
        let candidates: Vec<(usize, Cell)> =
            cells.filter(|(_, cell)| is_aligned(cell, is_horizontal)).collect();
        if candidates.len() < least {
            return None;
        }
        let pick = |rng: &mut Rng| candidates[rng.usize(..candidates.len())].1;
        let tries = (0..TRIES).filter_map(|_| {
            let first = pick(rng);
            let plane = match is_horizontal {
                true => Plane::horizontal(&first),
                false => Plane::vertical(&first, &pick(rng))?,
            };
            let count = candidates.iter().filter(|(_, cell)| plane.has(cell)).count();
            Some((count, plane))
        });
        let (_, rough) = tries.max_by_key(|(count, _)| *count)?;
        let inside = |plane: &Plane| -> Vec<usize> {
            let inside = candidates.iter().filter(|(_, cell)| plane.has(cell));
            self.largest_part(&inside.map(|(index, _)| *index).collect::<Vec<_>>())
        };
        let plane = self.fit(&inside(&rough), &rough)?;
        let part = inside(&plane);
        if part.len() < least {
            return None;
        }
        let points = part.iter().filter_map(|index| Some(self.cells[*index]?.point)).collect();
        for index in part {
            self.cells[index] = None;
        }
        Some(FittedPlane { normal: plane.normal, points })
    }

    /// The largest part of these cells that touch each other, also across one that is missing.
    fn largest_part(&self, cells: &[usize]) -> Vec<usize> {
        let mut is_left = vec![false; self.cells.len()];
        for index in cells {
            is_left[*index] = true;
        }
        let mut largest = Vec::new();
        for start in cells {
            if !std::mem::take(&mut is_left[*start]) {
                continue;
            }
            let mut part = vec![*start];
            let mut next = 0;
            while let Some(index) = part.get(next).copied() {
                next += 1;
                let (column, row) = (index % self.columns, index / self.columns);
                for row in row.saturating_sub(2)..=row + 2 {
                    for column in column.saturating_sub(2)..=(column + 2).min(self.columns - 1) {
                        let near = row * self.columns + column;
                        if is_left.get_mut(near).is_some_and(std::mem::take) {
                            part.push(near);
                        }
                    }
                }
            }
            if part.len() > largest.len() {
                largest = part;
            }
        }
        // The order of the grid, so that sums do not depend on the search.
        largest.sort_unstable();
        largest
    }

    /// The plane that fits these cells best, in the direction of a rough one.
    fn fit(&self, part: &[usize], rough: &Plane) -> Option<Plane> {
        let points: Vec<DVec3> =
            part.iter().filter_map(|index| Some(self.cells[*index]?.point)).collect();
        let mean = points.iter().sum::<DVec3>() / points.len().max(1) as f64;
        if rough.is_horizontal() {
            return (!points.is_empty())
                .then_some(Plane { offset: rough.normal.dot(mean), ..*rough });
        }
        let along = main_direction(points.iter().map(|point| (*point - mean).truncate()))?;
        let normal = along.perp().extend(0.0);
        let normal = if normal.dot(rough.normal) < 0.0 { -normal } else { normal };
        Some(Plane { normal, offset: normal.dot(mean) })
    }
}

fn is_aligned(cell: &Cell, is_horizontal: bool) -> bool {
    match is_horizontal {
        true => cell.normal.z.abs() > HORIZONTAL,
        false => cell.normal.z.abs() < VERTICAL,
    }
}

/// Points p with `normal` · p = `offset`.
#[derive(Clone, Copy)]
struct Plane {
    normal: DVec3,
    offset: f64,
}

impl Plane {
    fn horizontal(cell: &Cell) -> Self {
        let normal = DVec3::Z * cell.normal.z.signum();
        Self { normal, offset: normal.dot(cell.point) }
    }

    /// The vertical plane through two points.
    fn vertical(one: &Cell, other: &Cell) -> Option<Self> {
        let along = (other.point - one.point).truncate();
        if along.length() < LEAST_APART_M {
            return None;
        }
        let normal = along.normalize().perp().extend(0.0);
        let normal = if normal.dot(one.normal) < 0.0 { -normal } else { normal };
        Some(Self { normal, offset: normal.dot(one.point) })
    }

    fn is_horizontal(&self) -> bool {
        self.normal.z != 0.0
    }

    fn has(&self, cell: &Cell) -> bool {
        (self.normal.dot(cell.point) - self.offset).abs() < cell.tolerance_m
            && self.normal.dot(cell.normal) > SAME_DIRECTION
    }
}

/// Direction in which points around the origin spread most.
pub(crate) fn main_direction(points: impl Iterator<Item = DVec2>) -> Option<DVec2> {
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for point in points {
        xx += point.x * point.x;
        xy += point.x * point.y;
        yy += point.y * point.y;
    }
    let angle = 0.5 * (2.0 * xy).atan2(xx - yy);
    (xx + yy > 0.0).then(|| DVec2::from_angle(angle))
}
