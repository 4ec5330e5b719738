//! Sound: one node per file.
