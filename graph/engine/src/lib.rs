//! From a graph file to a running graph.
