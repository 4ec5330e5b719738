//! Typed, named ends of a stream.

use std::marker::PhantomData;

use crate::{OnFull, Payload, RecordCodec, WireCodec};

/// Index of a port among the inputs, or the outputs, of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(u16);

impl PortId {
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

/// An input of a node that takes every payload.
#[derive(Debug, Clone, Copy)]
pub struct AnyIn(PortId, &'static str);

/// Direction of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// Receives packets.
    Input,
    /// Sends packets.
    Output,
}

/// Contract of a port: compared when nodes are connected, and printed by the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Unique within its node and direction.
    pub name: &'static str,
    /// Direction.
    pub kind: PortKind,
    /// [`Payload::TYPE`] of what travels through it; [`Port::ANY`] for an input that takes all.
    pub ty: &'static str,
    /// Default policy of an edge from this output.
    pub on_full: OnFull,
    /// True if it may be left unconnected.
    pub optional: bool,
    /// True if an input takes several streams.
    pub many: bool,
    /// Input: true if values between two packets can be interpolated.
    pub interpolates: bool,
    /// Output: true if its packets have the timestamp of the packet of the call.
    pub in_step: bool,
    /// Codec of recordings.
    pub codec: Option<&'static dyn RecordCodec>,
    /// Codec between processes and machines.
    pub wire: Option<&'static dyn WireCodec>,
    /// Meaning, unit and rate.
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
            wire: None,
            help: "",
        }
    }

    /// The input `name`, with payload `T`.
    pub const fn input<T: Payload>(name: &'static str) -> Self {
        let port = Self::new(name, PortKind::Input, T::TYPE, T::ON_FULL);
        Self { interpolates: T::INTERPOLATES, codec: T::CODEC, wire: T::WIRE, ..port }
    }

    /// The output `name`, with payload `T`.
    pub const fn output<T: Payload>(name: &'static str) -> Self {
        let port = Self::new(name, PortKind::Output, T::TYPE, T::ON_FULL);
        Self { codec: T::CODEC, wire: T::WIRE, ..port }
    }

    /// The input `name`, which takes every payload.
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

    /// Marks an output whose packets have the timestamp of the packet of the call, at most one for
    /// each call. A call that sends nothing then advances the watermark of downstream
    /// synchronizers.
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
}

impl<T: Payload> In<T> {
    /// The input `name` at `index` among the inputs of its node; [`ports!`](crate::ports) is the
    /// usual way.
    pub const fn at(index: usize, name: &'static str) -> Self {
        Self(PortId::at(index), name, PhantomData)
    }

    /// Index among the inputs of the node.
    #[inline]
    pub const fn id(&self) -> PortId {
        self.0
    }

    /// Name in graph files.
    pub const fn name(&self) -> &'static str {
        self.1
    }

    /// Type-erased description.
    pub const fn port(&self) -> Port {
        Port::input::<T>(self.1)
    }
}

impl<T: Payload> Out<T> {
    /// The output `name` at `index` among the outputs of its node; [`ports!`](crate::ports) is the
    /// usual way.
    pub const fn at(index: usize, name: &'static str) -> Self {
        Self(PortId::at(index), name, PhantomData)
    }

    /// Index among the outputs of the node.
    #[inline]
    pub const fn id(&self) -> PortId {
        self.0
    }

    /// Name in graph files.
    pub const fn name(&self) -> &'static str {
        self.1
    }

    /// Type-erased description.
    pub const fn port(&self) -> Port {
        Port::output::<T>(self.1)
    }
}

impl AnyIn {
    /// The input `name` at `index` among the inputs of its node; [`ports!`](crate::ports) is the
    /// usual way.
    pub const fn at(index: usize, name: &'static str) -> Self {
        Self(PortId::at(index), name)
    }

    /// The same input, to read packets of type `T`.
    pub const fn of<T: Payload>(&self) -> In<T> {
        In(self.0, self.1, PhantomData)
    }

    /// Index among the inputs of the node.
    #[inline]
    pub const fn id(&self) -> PortId {
        self.0
    }

    /// Name in graph files.
    pub const fn name(&self) -> &'static str {
        self.1
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
pub const fn port_index(ports: &[Port], kind: PortKind, name: &str) -> usize {
    let (mut next, mut index, mut found) = (0, 0, None);
    while next < ports.len() {
        let port = &ports[next];
        if port.kind as u8 == kind as u8 {
            if equal(port.name, name) {
                assert!(found.is_none(), "two ports of the same direction have the same name");
                found = Some(index);
            }
            index += 1;
        }
        next += 1;
    }
    match found {
        Some(index) => index,
        None => panic!("the port is not declared"),
    }
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut len = 0;
    while len < a.len() && len < b.len() && a[len] == b[len] {
        len += 1;
    }
    len == a.len() && len == b.len()
}

/// Lower-case bytes of `name`, which has `N` bytes; used by [`ports!`](crate::ports).
#[doc(hidden)]
pub const fn lower<const N: usize>(name: &str) -> [u8; N] {
    let (mut bytes, mut at) = ([0; N], 0);
    while at < N {
        bytes[at] = name.as_bytes()[at].to_ascii_lowercase();
        at += 1;
    }
    bytes
}

/// Declares the ports of a node, each once: a typed constant, the list for [`Node::PORTS`], and the
/// table of the documentation.
///
/// The name in graph files is the name of the constant in lower case, or the text after `=`. The
/// comment becomes the help text. The payload type is a path, or `any` for an input that takes
/// every payload; the constant is then an [`AnyIn`]. The flags `optional`, `many`, and `in_step`
/// may follow the payload type.
///
/// ```
/// use afferent_graph::{Payload, Port, PortId, ports};
/// # #[derive(Clone, Default)] struct AudioBlock;
/// # impl Payload for AudioBlock { const TYPE: &'static str = "audio/Block"; }
/// # #[derive(Clone, Default)] struct SpeechEvent;
/// # impl Payload for SpeechEvent { const TYPE: &'static str = "speech/Event"; }
///
/// struct Gate;
/// ports! {
///     impl Gate {
///         /// Sound, full scale ±1, any sample rate, in blocks
///         /// of any length.
///         in AUDIO: AudioBlock;
///         /// Speech that opens the gate.
///         in SPEECH: SpeechEvent, optional;
///         /// Events that close the gate.
///         in CLOSE: any, optional, many;
///         /// The same sound, or silence.
///         out GATED = "audio": AudioBlock, in_step;
///     }
/// }
/// assert_eq!((Gate::SPEECH.id(), Gate::SPEECH.name()), (PortId::at(1), "speech"));
/// assert_eq!((Gate::CLOSE.id(), Gate::PORTS[2].ty), (PortId::at(2), Port::ANY));
/// assert_eq!(Gate::GATED.name(), "audio");
/// assert!(Gate::PORTS[0].help.ends_with("in blocks of any length."));
/// assert_eq!(Gate::PORTS[3].help, "The same sound, or silence.");
/// ```
///
/// [`AnyIn`]: crate::AnyIn
/// [`Node::PORTS`]: crate::Node::PORTS
#[macro_export]
macro_rules! ports {
    (impl $node:ty { $(
        $(#[doc = $help:literal])+
        $dir:ident $port:ident $(= $name:literal)?: $payload:ident $(:: $segment:ident)* $(, $flag:ident)*;
    )* }) => {
        #[doc = "Ports:\n\n| port | direction | payload | flags | meaning |\n|---|---|---|---|---|"]
        $(#[doc = concat!(
            "| `", stringify!($port), "`", $(" (`", $name, "`)",)? " | ", stringify!($dir), " | ",
            $crate::ports!(@link $payload $(:: $segment)*), " | " $(, stringify!($flag), " ")*, "|"
            $(, $help)+, " |"
        )])*
        #[allow(unreachable_pub, reason = "the node may be private")]
        impl $node {
            /// All ports of the node.
            pub const PORTS: &'static [$crate::Port] = &[$(
                $crate::ports!(@port $dir $payload $(:: $segment)*, $crate::ports!(@name $port $($name)?))
                    .help(concat!($($help),+).trim_ascii()) $(.$flag())*
            ),*];
            $(
                $(#[doc = $help])+
                pub const $port: $crate::ports!(@type $dir $payload $(:: $segment)*) = {
                    const NAME: &str = $crate::ports!(@name $port $($name)?);
                    let index = $crate::port_index(Self::PORTS, $crate::ports!(@kind $dir), NAME);
                    <$crate::ports!(@type $dir $payload $(:: $segment)*)>::at(index, NAME)
                };
            )*
        }
    };
    (@port in any, $name:expr) => { $crate::Port::any($name) };
    (@port in $payload:path, $name:expr) => { $crate::Port::input::<$payload>($name) };
    (@port out $payload:path, $name:expr) => { $crate::Port::output::<$payload>($name) };
    (@type in any) => { $crate::AnyIn };
    (@type in $payload:path) => { $crate::In<$payload> };
    (@type out $payload:path) => { $crate::Out<$payload> };
    (@kind in) => { $crate::PortKind::Input };
    (@kind out) => { $crate::PortKind::Output };
    (@link any) => { "any" };
    (@link $payload:path) => { concat!("[`", stringify!($payload), "`]") };
    (@name $port:ident $name:literal) => { $name };
    (@name $port:ident) => {{
        const LOWER: &[u8; stringify!($port).len()] = &$crate::lower(stringify!($port));
        match core::str::from_utf8(LOWER) {
            Ok(name) => name,
            Err(_) => panic!("a name in lower case is a text"),
        }
    }};
}
