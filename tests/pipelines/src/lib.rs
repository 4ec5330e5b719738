//! Each shipped graph on recorded input, virtual clock, expected events.
