//! Graph files, broken and sound, against a small list of nodes.

mod broken;
mod catalogue;
mod eight;
mod mutated;
mod sound;
