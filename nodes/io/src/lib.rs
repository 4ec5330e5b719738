//! Files and logs: one node per file.
