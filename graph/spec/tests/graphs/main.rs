//! Graph files, broken and sound, against a small list of nodes.

mod broken;
mod catalog;
mod diagram;
mod drawn;
mod drawn_layout;
mod eight;
mod misplaced;
mod mutated;
mod overlaid;
mod parts;
mod placed;
mod sound;
mod specialized;
