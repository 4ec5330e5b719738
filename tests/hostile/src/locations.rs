//! All numbers, lengths, references and vtable entries of a file.

use crate::{
    edit::{element_width, table_entry},
    flatbuffer::{Table, Vector, follow},
    schema::{Field, Kind, TableType},
};

/// Maximum number of locations. Corrupted files may refer to one table many times.
const MAX_LOCATIONS: usize = 20_000;

/// A location in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location {
    /// Offset.
    pub(crate) at: usize,
    /// Size in bytes.
    pub(crate) width: usize,
    pub(crate) role: Role,
}

/// Meaning of a location.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// Scalar or vector element.
    Number,
    /// Length of a vector.
    Length,
    /// Reference to an object.
    Reference(Kind),
    /// Offset of a field in the vtable.
    VtableEntry,
}

/// Returns all locations of a file with the given root table, including those of an embedded
/// program.
pub(crate) fn find(bytes: &[u8], root: &'static TableType) -> Vec<Location> {
    let mut found = Vec::new();
    // Numbers of the extended header.
    for at in (8..48).step_by(8) {
        found.push(Location { at, width: 8, role: Role::Number });
    }
    if let Some(table) = Table::root(bytes) {
        walk(bytes, root, table, &mut found);
    }
    found.retain(|location| location.at + location.width <= bytes.len());
    found
}

fn walk(bytes: &[u8], kind: &'static TableType, table: Table, found: &mut Vec<Location>) {
    for field in kind.fields {
        if found.len() >= MAX_LOCATIONS {
            return;
        }
        if let Some(at) = table.entry(bytes, field.slot) {
            found.push(Location { at, width: 2, role: Role::VtableEntry });
        }
        if let Some(at) = table.field(bytes, field.slot) {
            visit(bytes, field, table, at, found);
        }
    }
}

fn visit(bytes: &[u8], field: &Field, table: Table, at: usize, found: &mut Vec<Location>) {
    if let Kind::Number(width) = field.kind {
        found.push(Location { at, width, role: Role::Number });
        return;
    }
    found.push(Location { at, width: 4, role: Role::Reference(field.kind) });
    if let Kind::Union(_) = field.kind
        && let Some(at) = table.field(bytes, field.slot - 1)
    {
        found.push(Location { at, width: 1, role: Role::Number });
    }
    if let Some((kind, child)) = table.child(bytes, field) {
        walk(bytes, kind, child, found);
    }
    let width = element_width(field.kind);
    let vector = follow(bytes, at).and_then(|at| Some((at, Vector::at(bytes, at, width)?)));
    let Some((length, vector)) = vector else { return };
    if !matches!(field.kind, Kind::Table(_) | Kind::Union(_)) {
        found.push(Location { at: length, width: 4, role: Role::Length });
    }
    match field.kind {
        Kind::Tables(kind) => {
            for item in 0..vector.len.min(MAX_LOCATIONS) {
                let role = Role::Reference(Kind::Table(kind));
                found.push(Location { at: vector.start + 4 * item, width: 4, role });
                if let Some(child) = table_entry(bytes, at, item) {
                    walk(bytes, kind, child, found);
                }
                if found.len() >= MAX_LOCATIONS {
                    return;
                }
            }
        }
        Kind::Program => {
            let end = vector.start + vector.len;
            let within = find(&bytes[vector.start..end], &crate::schema::PROGRAM);
            found.extend(
                within
                    .iter()
                    .map(|location| Location { at: location.at + vector.start, ..*location }),
            );
        }
        Kind::Numbers(_) | Kind::Text | Kind::Bytes => {
            for item in 0..vector.len.min(64) {
                let at = vector.start + width * item;
                found.push(Location { at, width, role: Role::Number });
            }
        }
        Kind::Number(_) | Kind::Table(_) | Kind::Union(_) => {}
    }
}
