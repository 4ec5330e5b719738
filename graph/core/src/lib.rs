//! Packets, ports and nodes: the vocabulary of a dataflow graph.
