//! A router and a peer in this process, and calls of nodes.

use std::{
    io::{self, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use afferent_graph::{
    DynBench, Header, NodeEntry, NodeError, OpenCx, Packet, ParamValue, ParamValues, Payload,
    PortId, Services, SessionStart, Timestamp,
};
use afferent_nodes_ros2::{
    Attachment, NODES, Sessions, key::TopicKey, liveliness::Token, msg::RosMessage,
};
use zenoh::{Config, Session, Wait, bytes::ZBytes, qos::CongestionControl};

/// Time after which a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const START: SessionStart = SessionStart { unix_ns: 1_000 };

/// Session time of the stamp of the messages in `data`: 5 s before 1970, and 999999999 ns.
pub(crate) const AT: Timestamp = Timestamp(-4_000_000_001 - 1_000);

/// A router on the loopback device.
pub(crate) struct Router {
    pub(crate) address: String,
    pub(crate) session: Session,
}

pub(crate) fn config(mode: &str, role: &str, address: &str) -> Config {
    let mut config = Config::default();
    for (key, value) in [
        ("mode", format!("{mode:?}")),
        (role, format!("[{address:?}]")),
        ("scouting/multicast/enabled", "false".to_owned()),
        ("scouting/gossip/enabled", "false".to_owned()),
    ] {
        config.insert_json5(key, &value).unwrap();
    }
    config
}

impl Router {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::at(format!("tcp/127.0.0.1:{port}"))
    }

    pub(crate) fn at(address: String) -> Self {
        let begin = Instant::now();
        loop {
            match zenoh::open(config("router", "listen/endpoints", &address)).wait() {
                Ok(session) => return Self { address, session },
                Err(error) => assert!(begin.elapsed() < LIMIT, "{error}"),
            }
        }
    }

    /// A client that stands for another program.
    pub(crate) fn peer(&self) -> Session {
        zenoh::open(config("client", "connect/endpoints", &self.address)).wait().unwrap()
    }

    /// Context with a session of its own.
    pub(crate) fn cx(&self, name: &str) -> OpenCx {
        let services = Services::default().with(Sessions::default()).with(START);
        OpenCx { name: name.to_owned(), services, ..OpenCx::default() }
    }

    /// Opens the node `kind` on `topic`.
    pub(crate) fn open(
        &self,
        kind: &str,
        topic: &str,
        more: &[(&str, &str)],
        cx: &OpenCx,
    ) -> DynBench {
        open(kind, &[&[("topic", topic), ("router", &*self.address)], more].concat(), cx).unwrap()
    }
}

pub(crate) fn open(
    kind: &str,
    params: &[(&str, &str)],
    cx: &OpenCx,
) -> Result<DynBench, NodeError> {
    let def = NODES.iter().map(|entry: &NodeEntry| entry()).find(|def| *def.name == *kind);
    let def = def.unwrap();
    let mut values = ParamValues::new();
    for (name, text) in [&[("domain", "7"), ("wait", "10s")], params].concat() {
        let param = def.params.iter().find(|param| &*param.name == name).unwrap();
        let value = param.accept(&ParamValue::Text(text.to_owned())).unwrap();
        values.insert(name.to_owned(), value);
    }
    def.factory().check(&values, cx)?;
    DynBench::open(&def, &values, cx)
}

/// Calls the source until it sends a packet.
pub(crate) fn next(source: &mut DynBench) -> Packet {
    let begin = Instant::now();
    loop {
        let mut sent = source.poll(Timestamp(5)).unwrap().0;
        match sent.pop() {
            Some((_, packet)) => {
                assert!(sent.is_empty(), "a message is one packet");
                return packet;
            }
            None => assert!(begin.elapsed() < LIMIT, "no packet arrived"),
        }
    }
}

pub(crate) fn value<T: Payload>(source: &mut DynBench) -> (Timestamp, T) {
    let packet = next(source);
    (packet.header.at, packet.get::<T>().unwrap().clone())
}

/// Sends `value` to the sink.
pub(crate) fn send(
    sink: &mut DynBench,
    at: Timestamp,
    value: impl Payload,
) -> Result<(), NodeError> {
    let packet = Packet::new(value, Header { at, ..Header::default() });
    sink.call(PortId::at(0), packet).map(|sent| assert!(sent.is_empty()))
}

/// Calls `condition` until it is true.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < LIMIT, "{what}");
        std::thread::yield_now();
    }
}

pub(crate) fn key<M: RosMessage>(topic: &str) -> TopicKey {
    TopicKey::new::<M>(7, topic).unwrap()
}

pub(crate) const ATTACHMENT: Attachment =
    Attachment { sequence: 1, source_timestamp_ns: 1_250, gid: [7; Attachment::LEN - 17] };

/// A publisher of another program, which has a subscriber.
pub(crate) fn publisher(peer: &Session, key: String) -> zenoh::pubsub::Publisher<'static> {
    let publisher =
        peer.declare_publisher(key).congestion_control(CongestionControl::Block).wait().unwrap();
    until("no subscriber", || publisher.matching_status().wait().unwrap().matching());
    publisher
}

/// Messages on `key` as another program receives them: payload and attachment.
pub(crate) fn subscriber(
    peer: &Session,
    key: String,
) -> Receiver<(String, Vec<u8>, Option<Vec<u8>>)> {
    let (sender, receiver) = channel();
    let send = move |sample: zenoh::sample::Sample| {
        let bytes = |bytes: &ZBytes| bytes.to_bytes().into_owned();
        let key = sample.key_expr().to_string();
        // An error is the end of the test.
        let _ = sender.send((key, bytes(sample.payload()), sample.attachment().map(bytes)));
    };
    peer.declare_subscriber(key).callback(send).background().wait().unwrap();
    receiver
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Messages of rosbags: the last one called `name` in the files of `data`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let text = concat!(include_str!("../data/messages.txt"), include_str!("../data/payloads.txt"));
    let line = text.lines().rfind(|line| line.starts_with(&format!("{name} "))).unwrap();
    bytes(line.split(' ').nth(1).unwrap())
}

/// Lines that `run` logs in this thread.
pub(crate) fn logged(run: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_ansi(false)
        .with_target(true)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(log, run);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let lines = text.lines().filter(|line| line.contains("afferent_nodes_ros2"));
    lines.map(str::to_owned).collect()
}

/// Tokens of domain 7.
pub(crate) fn tokens(peer: &Session) -> Vec<Token> {
    let replies = peer.liveliness().get("@ros2_lv/7/**").wait().unwrap();
    let keys = replies.iter().map(|reply| reply.result().unwrap().key_expr().to_string());
    keys.map(|key| Token::parse(&key).unwrap()).collect()
}

/// Waits until the router has handled the declarations of `peer`.
pub(crate) fn wait_for(peer: &Session) {
    tokens(peer);
}

/// Sends `message` to the source of `name`, gets `expected`, sends it to the sink, and gets `message`.
pub(crate) fn check_both_ways<M: RosMessage, T: Payload>(
    router: &Router,
    name: &str,
    more: [&[(&str, &str)]; 2],
    message: &[u8],
    expected: &T,
    same: fn(&T, &T) -> bool,
) {
    let (cx, peer, topic) = (router.cx(name), router.peer(), format!("/{name}/a"));
    let time = [&[("time", "sender")], more[0]].concat();
    let mut source = router.open(&format!("ros2_{name}_source"), &topic, &time, &cx);
    let publisher = publisher(&peer, key::<M>(&topic).publish());
    publisher.put(message).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
    let (at, found) = value::<T>(&mut source);
    assert!(same(&found, expected), "{name}: {:?}", found.fields());
    let is_stamped = name != "text";
    assert_eq!(at, if is_stamped { AT } else { Timestamp(250) }, "{name}");

    let topic = format!("/{name}/b");
    let messages = subscriber(&peer, key::<M>(&topic).subscribe());
    wait_for(&peer);
    let mut sink = router.open(&format!("ros2_{name}_sink"), &topic, more[1], &cx);
    let mut gid = None;
    for sequence in 1..=3 {
        send(&mut sink, AT, expected.clone()).unwrap();
        let (found_key, found, attachment) = messages.recv_timeout(LIMIT).unwrap();
        assert_eq!(found_key, key::<M>(&topic).publish());
        assert_eq!(found, message, "{name}");
        let attachment = attachment.unwrap();
        assert_eq!(attachment.len(), 33);
        let found = Attachment::from_bytes(&attachment).unwrap();
        assert_eq!((found.sequence, found.source_timestamp_ns), (sequence, -4_000_000_001));
        assert_eq!(found.gid, *gid.get_or_insert(found.gid), "the identity does not change");
    }
    let announced = tokens(&peer).into_iter().find_map(|token| match token {
        Token::Endpoint(token) if token.topic == topic => Some(token.gid()),
        _ => None,
    });
    assert_eq!(announced, gid, "the identity is that of the token");
}
