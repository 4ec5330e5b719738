//! Event log, as text or JSON.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::{Path, PathBuf},
};

use afferent_graph::{
    Cx, Field, Header, Node, NodeError, OpenCx, OutputPath, Packet, Port, choices, params, ports,
};
use serde::ser::{SerializeMap, Serializer};

use crate::output::{self, file_error};

/// Writes one line per packet.
///
/// Format `text` writes aligned columns: the timestamp of the packet, the node that sent it, the
/// event, its fields, and how the time since the source emitted the trace divides into model runs
/// and framework. The framework time is everything else, such as waiting in queues.
///
/// ```text
///    3.920 s  wake      keyword        "hey afferent"  score 0.97      models 0.41 ms, framework 0.03 ms
/// ```
///
/// Format `json` writes one JSON object per line: `t_s`, `node`, `type`, `sequence`, the fields of
/// the payload except those with one of these names, `model_ms`, and `framework_ms`. The last is
/// absent if the engine does not provide the real time.
///
/// Format `plain` writes only the texts of packets, without partial transcripts.
///
/// Latency: none. A line is written before the next packet is processed, so a slow reader of the
/// output delays the nodes on the same thread.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, OutputPath, Timestamp};
/// use afferent_messages::KeywordEvent;
/// use afferent_nodes_io::{EventLog, EventLogParams, LogFormat};
///
/// let path = std::env::temp_dir().join(format!("afferent-events-{}.jsonl", std::process::id()));
/// let params = EventLogParams { format: LogFormat::Json, path: Some(OutputPath(path.clone())) };
/// let mut bench = NodeBench::new(EventLog::open(params, &OpenCx::default())?);
/// let event = KeywordEvent { label: "stop".to_owned(), score: 0.97 };
/// bench.call(EventLog::EVENTS.of(), Timestamp(3_920_000_000), event)?;
/// let line = std::fs::read_to_string(&path).unwrap();
/// assert!(line.starts_with(r#"{"t_s":3.92,"node":"","type":"speech/Keyword","sequence":0,"#));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct EventLog {
    format: LogFormat,
    /// Name of the output in error messages.
    path: PathBuf,
    writer: Box<dyn Write + Send>,
    line: Vec<u8>,
    columns: Columns,
}

choices! {
    /// Format of the lines.
    pub enum LogFormat {
        /// Aligned columns.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
        /// Only the text of packets that have a final one.
        Plain = "plain",
    }
}

params! {
    /// Settings of [`EventLog`].
    pub struct EventLogParams {
        /// Format of the lines.
        pub format: LogFormat = "text";
        /// Path of the file; standard output if absent or `-`.
        pub path: Option<OutputPath>;
    }
}

ports! {
    impl EventLog {
        /// Packets to write, of any payload.
        in EVENTS: any, many;
    }
}

impl EventLog {
    /// A log that writes to `writer`. Error messages call the output `name`.
    pub fn new(format: LogFormat, name: impl Into<PathBuf>, writer: Box<dyn Write + Send>) -> Self {
        let (line, columns) = (Vec::new(), Columns::default());
        Self { format, path: name.into(), writer, line, columns }
    }
}

/// Path of the file; `None` for standard output.
fn file_path(params: &EventLogParams) -> Option<&Path> {
    params.path.as_deref().filter(|path| path.as_os_str() != "-")
}

impl Node for EventLog {
    type Params = EventLogParams;

    const NAME: &'static str = "event_log";
    const SUMMARY: &'static str = "Writes one line per packet, as text or JSON.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn check(params: &EventLogParams, _: &OpenCx) -> Result<(), NodeError> {
        file_path(params).map_or(Ok(()), output::check_file)
    }

    fn open(params: EventLogParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (name, writer): (_, Box<dyn Write + Send>) = match file_path(&params) {
            Some(path) => (path, Box::new(output::create_file(path)?)),
            None => (Path::new("standard output"), Box::new(io::stdout())),
        };
        Ok(Self::new(params.format, name, writer))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(packet) = cx.packet() else { return Ok(()) };
        let latency = Latency::of(&packet.header, cx.real_ns());
        self.line.clear();
        let written = match self.format {
            LogFormat::Text => {
                let text = self.columns.line(packet, cx.source(), &latency);
                self.line.extend_from_slice(text.as_bytes());
                Ok(())
            }
            LogFormat::Json => write_json(&mut self.line, packet, cx.source(), &latency),
            LogFormat::Plain => match plain_text(packet) {
                Some(text) => {
                    self.line.extend_from_slice(text.as_bytes());
                    Ok(())
                }
                None => return Ok(()),
            },
        };
        let written = written.map_err(io::Error::from).and_then(|()| {
            self.line.push(b'\n');
            self.writer.write_all(&self.line)?;
            self.writer.flush()
        });
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => NodeError::Closed,
            _ => file_error(&self.path, format!("cannot write it: {error}")),
        })
    }
}

/// Text of a packet; `None` if it is empty or partial.
fn plain_text(packet: &Packet) -> Option<String> {
    let fields = packet.payload()?.fields();
    let field = |wanted| fields.iter().find(|(name, _)| *name == wanted).map(|(_, field)| field);
    match (field("event"), field("text")) {
        (Some(Field::Text(event)), _) if event == "partial" => None,
        (_, Some(Field::Text(text))) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

/// Time since the source emitted the trace, in milliseconds.
struct Latency {
    models_ms: f64,
    /// `None` if the engine does not provide the real time.
    framework_ms: Option<f64>,
}

impl Latency {
    fn of(header: &Header, real_ns: u64) -> Self {
        let ms = |ns: u64| ns as f64 / 1e6;
        let framework = real_ns.checked_sub(header.entered_ns);
        let framework = framework.map(|all| ms(all.saturating_sub(header.model_ns)));
        Self { models_ms: ms(header.model_ns), framework_ms: framework.filter(|_| real_ns > 0) }
    }
}

/// Column widths, which grow with the widest entry.
struct Columns {
    node: usize,
    event: usize,
    fields: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self { node: 8, event: 12, fields: 32 }
    }
}

impl Columns {
    /// Widest column; longer entries overflow it.
    const MAX_WIDTH: usize = 48;

    fn line(&mut self, packet: &Packet, source: &str, latency: &Latency) -> String {
        let payload = packet.payload();
        let kind = payload.map_or("", |payload| payload.type_name());
        let (mut event, mut rest) = (kind.to_owned(), String::new());
        for (name, field) in payload.map(|payload| payload.fields()).unwrap_or_default() {
            match field {
                Field::Text(text) if name == "event" => event = text.escape_debug().to_string(),
                field => {
                    let space = if rest.is_empty() { "" } else { "  " };
                    // Writing to a string cannot fail.
                    let _ = write!(rest, "{space}{}", field_text(name, &field));
                }
            }
        }
        let widen = |width: &mut usize, text: &str| {
            *width = text.chars().count().min(Self::MAX_WIDTH).max(*width);
            *width
        };
        let node_width = widen(&mut self.node, source);
        let event_width = widen(&mut self.event, &event);
        let rest_width = widen(&mut self.fields, &rest);
        let mut line = format!(
            "{:>8.3} s  {source:node_width$}  {event:event_width$}  {rest:rest_width$}  \
             models {:.2} ms",
            packet.header.at.as_secs_f64(),
            latency.models_ms,
        );
        if let Some(framework) = latency.framework_ms {
            let _ = write!(line, ", framework {framework:.2} ms");
        }
        line
    }
}

/// Text of a field. Labels and texts are written without their name.
fn field_text(name: &str, field: &Field) -> String {
    match field {
        Field::Text(text) if matches!(name, "label" | "text") => format!("{text:?}"),
        Field::Text(text) => format!("{name} {text:?}"),
        Field::Number(number) if (0.01..1e6).contains(&number.abs()) => {
            let digits = 2_usize.saturating_sub(number.abs().log10().floor().max(0.0) as usize);
            format!("{name} {number:.digits$}")
        }
        Field::Number(number) if number.is_normal() => format!("{name} {number:.2e}"),
        Field::Number(number) => format!("{name} {number}"),
        Field::Int(number) => format!("{name} {number}"),
        Field::Bool(value) => format!("{name} {value}"),
    }
}

/// Keys of every JSON line; payload fields with these names are skipped.
const RESERVED_KEYS: [&str; 6] = ["t_s", "node", "type", "sequence", "model_ms", "framework_ms"];

fn write_json(
    line: &mut Vec<u8>,
    packet: &Packet,
    source: &str,
    latency: &Latency,
) -> serde_json::Result<()> {
    let payload = packet.payload();
    let mut serializer = serde_json::Serializer::new(line);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("t_s", &packet.header.at.as_secs_f64())?;
    map.serialize_entry("node", source)?;
    map.serialize_entry("type", payload.map_or("", |payload| payload.type_name()))?;
    map.serialize_entry("sequence", &packet.header.sequence)?;
    for (name, field) in payload.map(|payload| payload.fields()).unwrap_or_default() {
        if !RESERVED_KEYS.contains(&name) {
            map.serialize_entry(name, &field)?;
        }
    }
    map.serialize_entry("model_ms", &latency.models_ms)?;
    if let Some(framework) = latency.framework_ms {
        map.serialize_entry("framework_ms", &framework)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use afferent_graph::{CallInfo, InputInfo, NodeContext, Outbox, Payload, Timestamp};
    use afferent_messages::{AudioBlock, KeywordEvent, SpeechEvent};

    use super::*;

    /// A buffer shared between a log and its test.
    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Lines of `packets` from node `wake`, processed at `real_ns`.
    fn lines(format: LogFormat, real_ns: u64, packets: Vec<Packet>) -> Vec<String> {
        let buffer = SharedBuffer::default();
        let mut log = EventLog::new(format, "buffer", Box::new(buffer.clone()));
        for packet in packets {
            call(&mut log, packet, real_ns).unwrap();
        }
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn call(log: &mut EventLog, mut packet: Packet, real_ns: u64) -> Result<(), NodeError> {
        let origin = packet.header;
        let context = NodeContext { origin, ..NodeContext::default() };
        let caller = CallInfo { now: origin.at, real_ns, restarted: false, context: &context };
        let inbound = InputInfo {
            port: EventLog::EVENTS.id(),
            name: EventLog::EVENTS.name().into(),
            source: "wake".to_owned(),
        };
        log.process(&mut Cx::new(caller, Some((&inbound, &mut packet)), &mut Outbox::default()))
    }

    fn packet(value: impl Payload) -> Packet {
        let (entered_ns, model_ns) = (1_000_000, 410_000);
        let at = Timestamp(3_920_000_000);
        Packet::new(value, Header { at, sequence: 7, entered_ns, model_ns, ..Header::default() })
    }

    fn keyword(label: &str) -> Packet {
        packet(KeywordEvent { label: label.to_owned(), score: 0.97 })
    }

    #[test]
    fn text_lines_have_aligned_columns() {
        let packets = vec![keyword("hey afferent"), packet(SpeechEvent::default())];
        assert_eq!(
            lines(LogFormat::Text, 1_440_000, packets),
            [
                "   3.920 s  wake      keyword       \"hey afferent\"  score 0.97        \
                 models 0.41 ms, framework 0.03 ms",
                "   3.920 s  wake      speech_start  probability 0                     \
                 models 0.41 ms, framework 0.03 ms",
            ]
        );
    }

    #[test]
    fn a_payload_without_an_event_is_named_by_its_type() {
        let line = lines(LogFormat::Text, 0, vec![packet(AudioBlock::default())]).remove(0);
        assert!(line.contains("audio/Block   rate_hz 16000  channels 1  samples 0"), "{line}");
        assert!(line.ends_with("models 0.41 ms"), "the real time is unknown: {line}");
    }

    #[test]
    fn json_lines_contain_the_payload_fields() {
        let line = lines(LogFormat::Json, 1_440_000, vec![keyword("hey \"you\"\n")]).remove(0);
        assert_eq!(
            line,
            r#"{"t_s":3.92,"node":"wake","type":"speech/Keyword","sequence":7,"event":"keyword","#
                .to_owned()
                + r#""label":"hey \"you\"\n","score":0.97,"model_ms":0.41,"framework_ms":0.03}"#
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let lines = lines(LogFormat::Text, 0, vec![keyword("\u{1b}[2Ja\nb")]);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains(r#""\u{1b}[2Ja\nb""#), "{}", lines[0]);
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let check = |number, expected: &str| {
            assert_eq!(field_text("x", &Field::Number(number)), format!("x {expected}"));
        };
        check(0.9712, "0.97");
        check(12.345, "12.3");
        check(-1234.5, "-1234");
        check(0.000_957_506_091_951_876_9, "9.58e-4");
        check(0.004, "4.00e-3");
        check(1e-9, "1.00e-9");
        check(-12_345_678.0, "-1.23e7");
        check(0.0, "0");
        check(f64::NAN, "NaN");
    }

    #[test]
    fn a_closed_pipe_is_an_error() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut log = EventLog::new(LogFormat::Text, "standard output", Box::new(Closed));
        let error = call(&mut log, keyword("x"), 0).unwrap_err().to_string();
        assert_eq!(error, "nothing reads the output any more");
    }
}
