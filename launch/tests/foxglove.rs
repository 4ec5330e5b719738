//! A client of the live protocol of Foxglove beside a running graph.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "shared/live.rs"]
mod live;

use std::{net::TcpStream, path::Path, time::Duration};

use afferent_graph::{Field, Header};
use afferent_messages::payload_type;
use live::LiveRun;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket, client::IntoClientRequest};

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the graph that detects wake words.
fn start(arguments: &[&str]) -> LiveRun {
    let graph = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/wake_word.yaml");
    LiveRun::start(&graph, arguments)
}

/// Connects as a client that offers `protocols`, from a page of `origin`.
fn connect(run: &LiveRun, protocols: &str, origin: Option<&str>) -> Option<Client> {
    let mut request = run.foxglove.as_str().into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocols.parse().unwrap());
    if let Some(origin) = origin {
        request.headers_mut().insert("Origin", origin.parse().unwrap());
    }
    let address = run.foxglove.strip_prefix("ws://").unwrap().split('/').next().unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (socket, answer) = tungstenite::client(request, stream).ok()?;
    let protocol = answer.headers()["Sec-WebSocket-Protocol"].to_str().unwrap().to_owned();
    Some(Client { socket, protocol })
}

struct Client {
    socket: WebSocket<TcpStream>,
    protocol: String,
}

impl Client {
    fn json(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// The next message with data: subscription, time in nanoseconds since 1970, bytes.
    fn data(&mut self) -> (u32, u64, Vec<u8>) {
        loop {
            if let Message::Binary(bytes) = self.socket.read().unwrap() {
                assert_eq!(bytes[0], 1);
                let id = u32::from_le_bytes(bytes[1..5].try_into().unwrap());
                let time = u64::from_le_bytes(bytes[5..13].try_into().unwrap());
                return (id, time, bytes[13..].to_vec());
            }
        }
    }

    fn ask(&mut self, request: &Value) {
        self.socket.send(Message::text(request.to_string())).unwrap();
    }
}

#[test]
fn a_client_gets_the_messages_of_the_channels_that_it_subscribes_to() {
    let run = start(&["--allow-origin", "https://app.foxglove.dev"]);
    let origin = Some("https://app.foxglove.dev");
    let mut client = connect(&run, "foxglove.websocket.v1, foxglove.sdk.v1", origin).unwrap();
    assert_eq!(client.protocol, "foxglove.sdk.v1");
    let greeting = client.json();
    assert_eq!((&greeting["op"], &greeting["capabilities"]), (&json!("serverInfo"), &json!([])));
    let advertised = client.json();
    assert_eq!(advertised["op"], "advertise");
    let channels = advertised["channels"].as_array().unwrap();
    let channel = channels.iter().find(|channel| channel["topic"] == "wake/events").unwrap();
    assert_eq!(
        (&channel["encoding"], &channel["schemaEncoding"]),
        (&json!("cdr"), &json!("ros2msg"))
    );
    let codec = payload_type("speech/Keyword").unwrap().record.unwrap();
    assert_eq!(
        (channel["schemaName"].as_str(), channel["schema"].as_str()),
        (Some(codec.message()), Some(codec.schema()))
    );

    client.ask(&json!({"op": "subscribe", "subscriptions": [{"id": 7, "channelId": 999}]}));
    let refused = client.json();
    assert_eq!((&refused["op"], &refused["level"]), (&json!("status"), &json!(2)));
    assert_eq!(refused["message"], "there is no channel 999");
    client
        .ask(&json!({"op": "subscribe", "subscriptions": [{"id": 7, "channelId": channel["id"]}]}));
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (id, time, bytes) = client.data();
    assert_eq!(id, 7);
    let age = Duration::from_nanos(time).abs_diff(started);
    assert!(age < PATIENCE, "{age:?}");
    let packet = codec.decode(&bytes, Header::default()).unwrap();
    let fields = packet.payload().unwrap().fields();
    assert!(fields.contains(&("label", Field::Text("hey afferent".to_owned()))), "{fields:?}");

    client.ask(&json!({"op": "unsubscribe", "subscriptionIds": [7]}));
    client.ask(&json!("what"));
    let refused = client.json();
    assert!(refused["message"].as_str().unwrap().starts_with("a request that is not understood"));
}

#[test]
fn clients_of_other_sites_are_refused() {
    let run = start(&[]);
    assert!(connect(&run, "foxglove.sdk.v1", Some("https://app.foxglove.dev")).is_none());
    assert!(connect(&run, "foxglove.websocket.v1", None).is_some());
}

/// The graph ends as it does without a client.
#[test]
fn a_client_that_reads_nothing_holds_nothing_up() {
    let mut run = start(&["--duration", "3s"]);
    let mut stalled = connect(&run, "foxglove.sdk.v1", None).unwrap();
    let channels: Vec<_> =
        (0..6).map(|channel| json!({"id": channel, "channelId": channel})).collect();
    stalled.ask(&json!({"op": "subscribe", "subscriptions": channels}));
    assert!(run.process.wait().unwrap().success());
}
