//! Every place of a file that the format gives a meaning.

use crate::{
    edit::{element_width, entry},
    flatbuffer::{Table, Vector, follow},
    schema::{Field, Kind, TableType},
};

/// The most places that are listed: damaged files may refer to one table many times.
const MOST: usize = 20_000;

/// A place with a meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    /// First byte.
    pub(crate) at: usize,
    /// Bytes.
    pub(crate) width: usize,
    /// What stands there.
    pub(crate) role: Role,
}

/// What stands at a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// A number.
    Number,
    /// The length of a vector.
    Length,
    /// A reference to an object of this kind.
    Reference(Kind),
    /// The place of a field in the vtable.
    Entry,
}

/// The places of a file with this kind of root; of a program within it, too.
pub(crate) fn find(bytes: &[u8], root: &'static TableType) -> Vec<Spot> {
    let mut found = Vec::new();
    // The numbers of an extended header.
    for at in (8..48).step_by(8) {
        found.push(Spot { at, width: 8, role: Role::Number });
    }
    if let Some(table) = Table::root(bytes) {
        walk(bytes, root, table, &mut found);
    }
    found.retain(|spot| spot.at + spot.width <= bytes.len());
    found
}

fn walk(bytes: &[u8], kind: &'static TableType, table: Table, found: &mut Vec<Spot>) {
    for field in kind.fields {
        if found.len() >= MOST {
            return;
        }
        if let Some(at) = table.entry(bytes, field.slot) {
            found.push(Spot { at, width: 2, role: Role::Entry });
        }
        if let Some(at) = table.field(bytes, field.slot) {
            visit(bytes, field, table, at, found);
        }
    }
}

fn visit(bytes: &[u8], field: &Field, table: Table, at: usize, found: &mut Vec<Spot>) {
    if let Kind::Number(width) = field.kind {
        found.push(Spot { at, width, role: Role::Number });
        return;
    }
    found.push(Spot { at, width: 4, role: Role::Reference(field.kind) });
    if let Kind::Union(_) = field.kind
        && let Some(at) = table.field(bytes, field.slot - 1)
    {
        found.push(Spot { at, width: 1, role: Role::Number });
    }
    if let Some((kind, child)) = table.child(bytes, field) {
        walk(bytes, kind, child, found);
    }
    let width = element_width(field.kind);
    let vector = follow(bytes, at).and_then(|at| Some((at, Vector::at(bytes, at, width)?)));
    let Some((length, vector)) = vector else { return };
    if !matches!(field.kind, Kind::Table(_) | Kind::Union(_)) {
        found.push(Spot { at: length, width: 4, role: Role::Length });
    }
    match field.kind {
        Kind::Tables(kind) => {
            for item in 0..vector.len.min(MOST) {
                let role = Role::Reference(Kind::Table(kind));
                found.push(Spot { at: vector.start + 4 * item, width: 4, role });
                if let Some(child) = entry(bytes, at, item) {
                    walk(bytes, kind, child, found);
                }
                if found.len() >= MOST {
                    return;
                }
            }
        }
        Kind::Program => {
            let end = vector.start + vector.len;
            let within = find(&bytes[vector.start..end], &crate::schema::PROGRAM);
            found.extend(within.iter().map(|spot| Spot { at: spot.at + vector.start, ..*spot }));
        }
        Kind::Numbers(_) | Kind::Text | Kind::Bytes => {
            for item in 0..vector.len.min(64) {
                let at = vector.start + width * item;
                found.push(Spot { at, width, role: Role::Number });
            }
        }
        Kind::Number(_) | Kind::Table(_) | Kind::Union(_) => {}
    }
}
