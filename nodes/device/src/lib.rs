//! Devices: one node per file.
