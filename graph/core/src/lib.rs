//! Packets, ports and nodes: the vocabulary of a dataflow graph.
//!
//! A node depends on this crate and never on the engine that runs it.
//!
//! | module    | holds                                                                    |
//! |-----------|--------------------------------------------------------------------------|
//! | `time`    | time stamps on the clock of the session                                  |
//! | `packet`  | packets, loans and pools, and the interface of their values              |
//! | `credit`  | credits of edges with an in-flight limit                                 |
//! | `payload` | payload types and the default policies of their edges                    |
//! | `payload_type` | payload types as values, for types known only at run time                |
//! | `dynamic` | values of types known only at run time                                  |
//! | `session_start` | civil time of the session clock                                    |
//! | `codec`   | how values are written to recordings                                     |
//! | `wire`    | how values travel between processes and machines                         |
//! | `port`    | typed, named ends of a stream                                            |
//! | `param`   | the settings of a node, declared once with unit, range and default       |
//! | `node`    | what a node is, and the entry of a node list                             |
//! | `cx`, `outbox` | what a node sees during one call, and what it sends in it           |
//! | `threading` | atomics, for the model checker too                                     |
//!
//! **Invariant:** nothing here blocks; a node that has no input simply is not called.
//! **Invariant:** a payload is not changed while another holder can see it.

mod bench;
mod catalog;
mod codec;
mod credit;
mod cx;
mod dynamic;
mod factory;
mod node;
mod outbox;
mod packet;
mod param;
mod payload;
mod payload_type;
mod port;
mod session_start;
#[cfg(test)]
mod test_payload;
mod threading;
mod time;
mod wire;

pub use afferent_core::{AlignedBytes, ForeignBytes, Memory, Service, ServiceMissing, Services};
pub use bench::{DynBench, NodeBench, Sent};
pub use catalog::{Catalog, PayloadConflict};
pub use codec::{Codec, RecordCodec};
pub use credit::{Credit, CreditGuard};
pub use cx::{CallInfo, CallRequest, Cx, InputInfo, IntoLoan, Joined, NodeContext, Resume};
pub use dynamic::Dynamic;
pub use factory::{NodeDef, NodeEntry, NodeFactory, NodeSpec, ParamSpec, PortSpec, Typed};
pub use node::{DynNode, Node, NodeError, OpenCx, Weight};
pub use outbox::Outbox;
pub use packet::{AnyPayload, Field, Header, Loan, Packet, Pool};
pub use param::{
    Choice, OutputPath, Param, ParamError, ParamKind, ParamType, ParamValue, ParamValues, Params,
    read_duration, read_param,
};
pub use payload::{OnFull, Payload};
pub use payload_type::PayloadType;
pub use port::{AnyIn, In, Out, Port, PortId, PortKind, lower, port_index};
pub use session_start::SessionStart;
pub use time::Timestamp;
pub use wire::WireCodec;
