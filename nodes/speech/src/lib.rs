//! Speech: one node per file.
