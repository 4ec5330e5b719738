//! Images in a browser.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use afferent_graph::{
    AnyPayload, Cx, Field, Node, NodeError, OpenCx, Packet, Port, Timestamp, Weight, params, ports,
};
use afferent_messages::Image;
use afferent_web::Server;
use serde::Serialize;

use crate::JpegWriter;

mod site;

use site::{Pages, Shown};

params! {
    /// Settings of [`Preview`].
    pub struct PreviewParams {
        /// Address and port of the page. Only this machine reaches the loopback address.
        pub bind: String = "127.0.0.1:8080";
        /// Most images per second.
        pub max_rate: f64 = "15", range 0.1..=120.0, unit "Hz";
        /// Quality of the JPEG images.
        pub quality: u32 = "80", range 1.0..=100.0;
        /// Longest side of the images; larger ones are scaled down.
        pub max_size: u32 = "1280", range 16.0..=16384.0, unit "px";
    }
}

/// Shows images and events on a web page.
///
/// | address | |
/// |---|---|
/// | `/` | a page with the images, and with the last events under them |
/// | `/stream` | the images as they come, as `multipart/x-mixed-replace` (MJPEG) |
/// | `/image.jpg` | the next image |
/// | `/events.json` | the last 20 packets of `events`: time, node, type and fields |
///
/// Images are encoded only while a client watches, and a slow one skips images. The page is not encrypted and asks for no password: bind it to another address than the
/// loopback one only in a network that you trust. Requests that other web pages make are refused.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, OpenCx, ParamValue, Params};
/// use afferent_nodes_vision::{Preview, PreviewParams};
///
/// let values = [("bind".to_owned(), ParamValue::Text("localhost:eighty".into()))].into();
/// let params = PreviewParams::from_values(&values).unwrap();
/// let error = Preview::open(params, &OpenCx::default()).err().unwrap().to_string();
/// assert!(error.contains("bind") && error.contains("127.0.0.1:8080"), "{error}");
/// ```
pub struct Preview {
    params: PreviewParams,
    server: Server,
    shown: Arc<Shown>,
    writer: JpegWriter,
    last: Option<Timestamp>,
}

ports! {
    impl Preview {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Packets whose fields are shown, such as detections, gestures or text.
        in EVENTS: any, optional, many;
    }
}

impl Preview {
    /// Address of the page.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

/// A packet as a JSON object.
#[derive(Serialize)]
struct Event<'e> {
    t_s: f64,
    node: &'e str,
    r#type: &'e str,
    fields: BTreeMap<&'static str, Field>,
}

impl<'e> Event<'e> {
    fn new(at: Timestamp, node: &'e str, payload: &'e dyn AnyPayload) -> Self {
        let fields = payload.fields().into_iter().collect();
        Self { t_s: at.as_secs_f64(), node, r#type: payload.type_name(), fields }
    }
}

impl Node for Preview {
    type Params = PreviewParams;

    const NAME: &'static str = "preview";
    const SUMMARY: &'static str = "Shows images and events on a web page.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "none";

    fn open(params: PreviewParams, _: &OpenCx) -> Result<Self, NodeError> {
        let shown = Arc::new(Shown::default());
        let pages = Arc::new(Pages(shown.clone()));
        let server =
            Server::start(&params.bind, pages).map_err(|error| NodeError::InvalidParam {
                name: "bind".into(),
                reason: format!(
                    "{}: {error}; an address is written HOST:PORT, such as 127.0.0.1:8080",
                    params.bind
                ),
            })?;
        tracing::info!("images at http://{}/", server.address());
        let writer = JpegWriter::new(params.max_size, params.quality as u8);
        Ok(Self { params, server, shown, writer, last: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        if cx.port() == Some(Self::EVENTS.name()) {
            if let Some(payload) = cx.packet().and_then(Packet::payload) {
                let event = serde_json::to_string(&Event::new(at, cx.source(), payload));
                self.shown.tell(event.map_err(|error| NodeError::InvalidInput {
                    port: Self::EVENTS.name().into(),
                    reason: error.to_string(),
                })?);
            }
            return Ok(());
        }
        let period = Duration::from_secs_f64(1.0 / self.params.max_rate);
        // Cameras are not exact.
        let is_early =
            self.last.is_some_and(|last| at >= last && at.since(last) < period.mul_f64(0.75));
        if is_early || !self.shown.is_watched() {
            return Ok(());
        }
        self.last = Some(at);
        let Some(image) = cx.get(Self::IMAGES).filter(|image| !image.bytes().is_empty()) else {
            return Ok(());
        };
        let fault = |reason| NodeError::InvalidInput { port: Self::IMAGES.name().into(), reason };
        let file = self.writer.write(image).map_err(fault)?;
        self.shown.show(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        thread,
    };

    use afferent_graph::{NodeBench, ParamValue, Params};
    use afferent_messages::PixelFormat;
    use serde_json::{Value, json};

    use super::*;

    fn open() -> Preview {
        let values = [("bind".to_owned(), ParamValue::Text("127.0.0.1:0".into()))].into();
        Preview::open(PreviewParams::from_values(&values).unwrap(), &OpenCx::default()).unwrap()
    }

    fn ask(address: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn answer(address: SocketAddr, request: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        ask(address, request).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_last_events_are_listed() {
        let mut bench = NodeBench::new(open());
        let address = bench.node_mut().address();
        for number in 0..30_u8 {
            let text = afferent_messages::Text::from(format!("<line {number}>").as_str());
            let at = Timestamp(i64::from(number) * 1_000_000_000);
            bench.call(Preview::EVENTS.of(), at, text).unwrap();
        }
        let bytes = answer(address, "GET /events.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/json"), "{head}");
        let events: Vec<Value> = serde_json::from_str(body).unwrap();
        assert_eq!((events.len(), &events[19]["fields"]["text"]), (20, &json!("<line 29>")));
        assert_eq!((&events[0]["t_s"], &events[0]["type"]), (&json!(10.0), &json!("text/Text")));
        let keyword = afferent_messages::KeywordEvent { label: "stop".to_owned(), score: 0.97 };
        bench.call(Preview::EVENTS.of(), Timestamp(31_000_000_000), keyword).unwrap();
        let bytes = answer(address, "GET /events.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with(r#""label":"stop","score":0.97}}]"#), "{text}");
    }

    fn image(value: u8) -> Image {
        let mut image = Image::default();
        image.reshape(PixelFormat::Nv12, 64, 48).unwrap().fill(value);
        image
    }

    /// Sends images until the thread has its result.
    fn show<T: Send + 'static>(bench: &mut NodeBench<Preview>, client: thread::JoinHandle<T>) -> T {
        let mut at = 0;
        while !client.is_finished() {
            at += 100_000_000;
            bench.call(Preview::IMAGES, Timestamp(at), image(128)).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        client.join().unwrap()
    }

    #[test]
    fn images_are_shown_while_a_client_watches() {
        let preview = open();
        let address = preview.address();
        let mut bench = NodeBench::new(preview);
        let page = String::from_utf8(answer(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("src=\"/stream\""), "{page}");
        let client = thread::spawn(move || {
            answer(address, "GET /image.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        });
        let found = show(&mut bench, client);
        let start = found.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let mut decoded = Image::default();
        decoded.read_jpeg(None, &found[start..]).unwrap();
        assert_eq!((decoded.width(), decoded.height()), (64, 48));
        assert!(decoded.bytes()[0].abs_diff(130) < 6, "limited range: {}", decoded.bytes()[0]);
        let client = thread::spawn(move || {
            let mut stream = ask(address, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let (mut found, mut buffer) = (Vec::new(), [0; 4096]);
            while found.windows(4).filter(|bytes| *bytes == b"\xff\xd8\xff\xe0").count() < 3 {
                let read = stream.read(&mut buffer).unwrap();
                assert!(read > 0, "the stream ends");
                found.extend(&buffer[..read]);
            }
            String::from_utf8_lossy(&found).into_owned()
        });
        let stream = show(&mut bench, client);
        assert!(stream.contains("multipart/x-mixed-replace"), "{stream}");
    }

    #[test]
    fn requests_of_other_pages_and_names_are_refused() {
        let preview = open();
        let status = |headers: &str| {
            let request = format!("GET / HTTP/1.1\r\n{headers}\r\n");
            let answer = String::from_utf8(answer(preview.address(), &request)).unwrap();
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(status("Host: localhost:8080\r\nSec-Fetch-Site: same-origin\r\n"), "200");
        assert_eq!(status("Host: 127.0.0.1:8080\r\n"), "200");
        assert_eq!(status("Host: [::1]:8080\r\n"), "200");
        assert_eq!(status("Host: localhost\r\nsec-fetch-site: cross-site\r\n"), "403");
        // A name that another page has made to lead here.
        assert_eq!(status("Host: evil.example:8080\r\n"), "403");
        let none = String::from_utf8(answer(
            preview.address(),
            "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ))
        .unwrap();
        assert!(none.starts_with("HTTP/1.1 404"), "{none}");
    }
}
