//! Typed, named ends of a stream.

use std::marker::PhantomData;

use crate::{Codec, OnFull, Payload};

/// An input of a node.
pub struct In<T>(&'static str, PhantomData<fn(T)>);

/// An output of a node.
pub struct Out<T>(&'static str, PhantomData<fn() -> T>);

/// Direction of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// Receives packets.
    Input,
    /// Sends packets.
    Output,
}

/// What the graph checks before it connects two nodes, and what the catalogue prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Unique within its node and direction.
    pub name: &'static str,
    /// Direction.
    pub kind: PortKind,
    /// [`Payload::TYPE`] of what travels through it; [`Port::ANY`] for an input that takes all.
    pub ty: &'static str,
    /// What an edge from this output does under load when the graph does not say.
    pub on_full: OnFull,
    /// Whether the graph may leave it unconnected.
    pub optional: bool,
    /// Whether an input takes several streams.
    pub many: bool,
    /// Of an input: whether a value between two packets can be made of them.
    pub interpolates: bool,
    /// Of an output: whether its packets have the time of the packet of the call.
    pub in_step: bool,
    /// How its values are written to recordings.
    pub codec: Option<Codec>,
    /// What it carries: meaning, unit, rate.
    pub help: &'static str,
}

impl Port {
    /// Type of an input that takes every payload.
    pub const ANY: &'static str = "any";

    const fn new(name: &'static str, kind: PortKind, ty: &'static str, on_full: OnFull) -> Self {
        let (optional, many, interpolates, in_step) = (false, false, false, false);
        Self {
            name,
            kind,
            ty,
            on_full,
            optional,
            many,
            interpolates,
            in_step,
            codec: None,
            help: "",
        }
    }

    /// An input called `name` that takes every payload.
    pub const fn any(name: &'static str) -> Self {
        Self::new(name, PortKind::Input, Self::ANY, OnFull::Block)
    }

    /// The same port with a text about meaning, unit and rate.
    #[must_use]
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// The same port, which may be left unconnected: an input that the node can do without, or an
    /// output of a node that is of use without it.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The same output, whose packets have the time of the packet of the call, at most one for each:
    /// a call that sends nothing tells who joins it with other streams not to wait.
    #[must_use]
    pub const fn in_step(mut self) -> Self {
        self.in_step = true;
        self
    }

    /// The same input, which takes several streams.
    #[must_use]
    pub const fn many(mut self) -> Self {
        self.many = true;
        self
    }

    /// Whether packets of an output of type `ty` may enter this input.
    pub fn accepts(&self, ty: &str) -> bool {
        self.ty == Self::ANY || self.ty == ty
    }
}

impl<T: Payload> In<T> {
    /// Input called `name`.
    pub const fn new(name: &'static str) -> Self {
        Self(name, PhantomData)
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.0
    }

    /// Its type-erased description.
    pub const fn port(&self) -> Port {
        let port = Port::new(self.0, PortKind::Input, T::TYPE, T::ON_FULL);
        Port { interpolates: T::INTERPOLATES, codec: T::CODEC, ..port }
    }
}

impl<T: Payload> Out<T> {
    /// Output called `name`.
    pub const fn new(name: &'static str) -> Self {
        Self(name, PhantomData)
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.0
    }

    /// Its type-erased description.
    pub const fn port(&self) -> Port {
        let port = Port::new(self.0, PortKind::Output, T::TYPE, T::ON_FULL);
        Port { codec: T::CODEC, ..port }
    }
}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}
