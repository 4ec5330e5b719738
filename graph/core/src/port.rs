//! Typed, named ends of a stream.

use std::marker::PhantomData;

use crate::{OnFull, Payload, RecordCodec};

/// Index of a port among the inputs, or the outputs, of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(u16);

impl PortId {
    /// Not resolved yet: a port that was made by its name alone.
    pub const UNRESOLVED: Self = Self(u16::MAX);

    /// The port at `index`.
    pub const fn at(index: usize) -> Self {
        assert!(index < u16::MAX as usize, "a node has at most 65534 ports");
        Self(index as u16)
    }

    /// The index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An input of a node.
pub struct In<T>(PortId, &'static str, PhantomData<fn(T)>);

/// An output of a node.
pub struct Out<T>(PortId, &'static str, PhantomData<fn() -> T>);

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
    /// Codec of recordings.
    pub codec: Option<&'static dyn RecordCodec>,
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
        Self(PortId::UNRESOLVED, name, PhantomData)
    }

    /// The port `name` at index `id`; used by [`ports!`](crate::ports).
    pub const fn resolved(id: PortId, name: &'static str) -> Self {
        Self(id, name, PhantomData)
    }

    /// Its index.
    #[inline]
    pub const fn id(&self) -> PortId {
        self.0
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.1
    }

    /// Its type-erased description.
    pub const fn port(&self) -> Port {
        let port = Port::new(self.1, PortKind::Input, T::TYPE, T::ON_FULL);
        Port { interpolates: T::INTERPOLATES, codec: T::CODEC, ..port }
    }
}

impl<T: Payload> Out<T> {
    /// Output called `name`.
    pub const fn new(name: &'static str) -> Self {
        Self(PortId::UNRESOLVED, name, PhantomData)
    }

    /// The port `name` at index `id`; used by [`ports!`](crate::ports).
    pub const fn resolved(id: PortId, name: &'static str) -> Self {
        Self(id, name, PhantomData)
    }

    /// Its index.
    #[inline]
    pub const fn id(&self) -> PortId {
        self.0
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.1
    }

    /// Its type-erased description.
    pub const fn port(&self) -> Port {
        let port = Port::new(self.1, PortKind::Output, T::TYPE, T::ON_FULL);
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

/// Index of the port `name` among those of its direction; used by [`ports!`](crate::ports).
#[doc(hidden)]
pub const fn port_id(ports: &[Port], kind: PortKind, name: &str) -> PortId {
    let (mut place, mut index, mut found) = (0, 0, None);
    while place < ports.len() {
        let port = &ports[place];
        if port.kind as u8 == kind as u8 {
            if equal(port.name, name) {
                assert!(found.is_none(), "two ports of one direction have one name");
                found = Some(index);
            }
            index += 1;
        }
        place += 1;
    }
    match found {
        Some(index) => PortId::at(index),
        None => panic!("the port is not declared"),
    }
}

const fn equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut place = 0;
    while place < one.len() && place < other.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len() && place == other.len()
}

/// `name` in lower case, as an array of its length; used by [`ports!`](crate::ports).
#[doc(hidden)]
pub const fn lower<const N: usize>(name: &str) -> [u8; N] {
    let (mut bytes, mut place) = ([0; N], 0);
    while place < N {
        bytes[place] = name.as_bytes()[place].to_ascii_lowercase();
        place += 1;
    }
    bytes
}

/// Declares the ports of a node, each once: a typed constant, the table [`Node::PORTS`] and the table
/// of the documentation.
///
/// The name in graph files is the name of the constant in lower case, or the text after `=`. The
/// comment becomes the help. After the payload type may stand `optional`, `many` and `in_step`.
///
/// ```
/// use afferent_graph::{Payload, PortId, ports};
/// # #[derive(Clone, Default)] struct AudioBlock;
/// # impl Payload for AudioBlock { const TYPE: &'static str = "audio/Block"; }
/// # #[derive(Clone, Default)] struct SpeechEvent;
/// # impl Payload for SpeechEvent { const TYPE: &'static str = "speech/Event"; }
///
/// struct Gate;
/// ports! {
///     impl Gate {
///         /// Sound, full scale ±1, any rate.
///         in AUDIO: AudioBlock;
///         /// Speech that opens the gate.
///         in SPEECH: SpeechEvent, optional;
///         /// The same sound, or silence.
///         out GATED = "audio": AudioBlock, in_step;
///     }
/// }
/// assert_eq!((Gate::SPEECH.id(), Gate::SPEECH.name()), (PortId::at(1), "speech"));
/// assert_eq!(Gate::GATED.name(), "audio");
/// assert_eq!(Gate::PORTS[2].help, " The same sound, or silence.");
/// ```
///
/// [`Node::PORTS`]: crate::Node::PORTS
#[macro_export]
macro_rules! ports {
    (impl $node:ty { $(
        $(#[doc = $help:literal])+
        $dir:tt $port:ident $(= $name:literal)?: $payload:ty $(, $flag:ident)*;
    )* }) => {
        #[doc = "Ports:\n\n| port | direction | payload | flags | meaning |\n|---|---|---|---|---|"]
        $(#[doc = concat!(
            "| `", stringify!($port), "`", $(" (`", $name, "`)",)? " | ", stringify!($dir), " | [`",
            stringify!($payload), "`] | " $(, stringify!($flag), " ")*, "|" $(, $help)+, " |"
        )])*
        #[allow(unreachable_pub, reason = "the node may be private")]
        impl $node {
            /// Every port of the node.
            pub const PORTS: &'static [$crate::Port] = &[$(
                $crate::ports!(@new $dir $payload, $crate::ports!(@name $port $($name)?))
                    .port().help(concat!($($help),+)) $(.$flag())*
            ),*];
            $(
                $(#[doc = $help])+
                pub const $port: $crate::ports!(@type $dir $payload) = {
                    const NAME: &str = $crate::ports!(@name $port $($name)?);
                    let id = $crate::port_id(Self::PORTS, $crate::ports!(@kind $dir), NAME);
                    <$crate::ports!(@type $dir $payload)>::resolved(id, NAME)
                };
            )*
        }
    };
    (@new in $payload:ty, $name:expr) => { $crate::In::<$payload>::new($name) };
    (@new out $payload:ty, $name:expr) => { $crate::Out::<$payload>::new($name) };
    (@type in $payload:ty) => { $crate::In<$payload> };
    (@type out $payload:ty) => { $crate::Out<$payload> };
    (@kind in) => { $crate::PortKind::Input };
    (@kind out) => { $crate::PortKind::Output };
    (@name $port:ident $name:literal) => { $name };
    (@name $port:ident) => {{
        const LOWER: &[u8; stringify!($port).len()] = &$crate::lower(stringify!($port));
        match core::str::from_utf8(LOWER) {
            Ok(name) => name,
            Err(_) => panic!("a name in lower case is a text"),
        }
    }};
}
