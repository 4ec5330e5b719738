//! Graph files, broken and sound, against a small list of nodes.

mod broken;
mod catalog;
mod drawn;
mod eight;
mod mutated;
mod overlaid;
mod parts;
mod sound;
mod specialized;
