//! Tool calls of a language model.

mod call;
mod file;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, Port, SessionStart, Timestamp, Weight, params, ports,
};
use afferent_messages::{Text, ToolMessage};
use serde_json::{Map, Value, json};

use self::file::{ToolKind, Tools};

params! {
    /// Settings of [`Tool`].
    pub struct ToolParams {
        /// Path of the YAML file that defines the tools.
        pub tools: PathBuf;
        /// Timeout of tools that do not define their own.
        pub timeout: Duration = "5s", range 0.01..=600.0;
        /// Text that is sent when a timer expires.
        pub alarm: String = "your timer is over.";
    }
}

/// Runs the tool calls of a language model: commands, HTTP requests, or built-in functions.
///
/// The file `tools` defines each tool under its name:
///
/// ```yaml
/// get_time:  {time: {}}                              # {"time": "16:10", "day": "monday"}, local
/// set_timer: {timer: {}}                             # hours, minutes, seconds: {"ok": true}
/// where_is:  {table: {of: thing, gives: location, rows: {keys: on the table}}}
/// set_light: {http: "http://127.0.0.1:8080/light", timeout: 2s}
/// play:      {command: [./play.sh, --once]}          # runs in the folder of the file
/// joke:      {answer: {text: "a horse walks into a bar"}}
/// ```
///
/// A command receives the arguments as JSON on standard input, a server as the body of a `POST`;
/// both return a JSON object. A call that takes longer than `timeout` is stopped, with every process
/// of the process group of a command. An interrupt stops the current call; timers continue, even after the end of the input stream.
///
/// Latency: that of the tool.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::ToolMessage;
/// use afferent_nodes_dialogue::{Tool, ToolParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-tools-{}.yaml", std::process::id()));
/// std::fs::write(&path, "where_is: {table: {of: thing, gives: location, rows: {keys: here}}}").unwrap();
/// let values = [("tools".to_owned(), ParamValue::Path(path.clone()))].into();
/// let mut bench = NodeBench::new(Tool::open(ToolParams::from_values(&values)?, &OpenCx::default())?);
/// let call = |json: &str| ToolMessage { turn: 1, tool: "where_is".into(), json: json.into() };
/// let sent = bench.call(Tool::CALLS, Timestamp(0), call("{\"thing\": \"keys\"}"))?;
/// assert_eq!(sent[0].1.get(), Some(&call("{\"location\":\"here\"}")));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Tool {
    tools: Tools,
    params: ToolParams,
    start: SessionStart,
    /// Expiry of each timer and the turn that set it, in order of expiry.
    timers: Vec<(Timestamp, u64)>,
}

ports! {
    impl Tool {
        /// Tool calls: the name of a tool and its arguments, a JSON object.
        in CALLS: ToolMessage;
        /// One result per call: a JSON object, `{"error": "..."}` if the call failed.
        out RESULTS: ToolMessage;
        /// The text `alarm`, when a timer expires.
        out ALARMS: Text, optional;
    }
}

impl Tool {
    /// Runs a tool and returns its result.
    ///
    /// # Errors
    /// Message for the language model.
    fn run(&mut self, cx: &Cx<'_>, call: &ToolMessage) -> Result<Value, String> {
        let tool = self.tools.get(&call.tool)?;
        let arguments: Map<String, Value> = serde_json::from_str(&call.json)
            .map_err(|_| format!("arguments {} are not a JSON object", call.json))?;
        let timeout = tool.timeout.unwrap_or(self.params.timeout);
        match &tool.kind {
            ToolKind::Answer(value) => Ok(value.clone()),
            ToolKind::Table(table) => table.find(&arguments),
            ToolKind::Time => Ok(call::local_time(self.start.unix_ns(cx.now()))),
            ToolKind::Timer => {
                let expiry = cx.now() + call::timer_duration(&arguments)?;
                let index = self.timers.partition_point(|(at, _)| *at <= expiry);
                self.timers.insert(index, (expiry, call.turn));
                Ok(json!({"ok": true}))
            }
            ToolKind::Command(command) => call::run_command(
                command,
                self.tools.folder(),
                &call.json,
                timeout,
                cx.cancel_flag(),
            ),
            ToolKind::Http(url) => call::post(url, &call.json, timeout, cx.cancel_flag()),
        }
    }
}

impl Node for Tool {
    type Params = ToolParams;

    const NAME: &'static str = "tool";
    const SUMMARY: &'static str = "Runs the tool calls of a language model.";
    const PORTS: &'static [Port] = Self::PORTS;
    // A call blocks until the tool returns.
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "that of the tool";

    fn check(params: &ToolParams, _: &OpenCx) -> Result<(), NodeError> {
        Tools::open(&params.tools).map(drop)
    }

    fn open(params: ToolParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let start = cx.services.need().copied().unwrap_or_else(|_| SessionStart::now());
        Ok(Self { tools: Tools::open(&params.tools)?, params, start, timers: Vec::new() })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(call) = cx.get(Self::CALLS).cloned() {
            let result = self.run(cx, &call);
            if cx.canceled() {
                return Err(NodeError::Canceled);
            }
            let result = result.unwrap_or_else(|reason| {
                tracing::warn!("tool {}: {reason}", call.tool);
                json!({"error": reason})
            });
            let now = cx.now();
            cx.send_at(Self::RESULTS, now, ToolMessage { json: result.to_string(), ..call });
        }
        while let Some((at, turn)) = self.timers.first().copied() {
            if cx.now() < at {
                cx.wake_at(at);
                break;
            }
            self.timers.remove(0);
            let text = self.params.alarm.clone();
            cx.send_at(Self::ALARMS, at, Text { turn, text, is_last: true });
        }
        Ok(())
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some((at, _)) = self.timers.first() {
            cx.wake_at(*at);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, net::TcpListener};

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params};
    use tempfile::TempDir;

    use super::*;

    /// A node with these tools. Their folder exists until the second value is dropped.
    fn open(tools: &str) -> Result<(NodeBench<Tool>, TempDir), NodeError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tools.yaml");
        fs::write(&path, tools).unwrap();
        let values: ParamValues = [("tools".to_owned(), ParamValue::Path(path))].into();
        let opened = Tool::open(ToolParams::from_values(&values)?, &OpenCx::default());
        opened.map(|node| (NodeBench::new(node), folder))
    }

    fn check(tools: &str, tool: &str, arguments: &str, expected: &str) {
        let (mut bench, _folder) = open(tools).unwrap();
        let call = ToolMessage { turn: 4, tool: tool.into(), json: arguments.into() };
        let sent = bench.call(Tool::CALLS, Timestamp(0), call).unwrap();
        let result = sent[0].1.get::<ToolMessage>().unwrap();
        assert_eq!((result.turn, result.tool.as_str()), (4, tool));
        assert!(result.json.starts_with(expected), "{} for {tools} {arguments}", result.json);
    }

    #[test]
    fn built_in_tools_return_their_results() {
        check("x: {answer: {ok: true}}", "x", "{}", "{\"ok\":true}");
        let table = "x: {table: {of: thing, gives: location, rows: {keys: here}}}";
        check(table, "x", "{\"thing\": \"keys\"}", "{\"location\":\"here\"}");
        check(table, "x", "{\"thing\": \"cat\"}", "{\"location\":null}");
        check(table, "x", "{}", "{\"error\":\"argument thing is missing or not a string\"}");
        check("x: {time: {}}", "x", "{}", "{\"day\":\"");
        check("x: {time: {}}", "y", "{}", "{\"error\":\"unknown tool y; available tools: x\"}");
        check("x: {time: {}}", "x", "[]", "{\"error\":\"arguments [] are not a JSON object\"}");
    }

    /// Runs in a process of its own with `TZ` set.
    #[test]
    fn the_time_is_that_of_the_session_in_the_local_zone() {
        let Ok(expected) = std::env::var("AFFERENT_TEST_TIME") else {
            for (zone, time) in [("Asia/Tokyo", "21:00"), ("CST6", "06:00"), ("UTC", "12:00")] {
                let mut test = std::process::Command::new(std::env::current_exe().unwrap());
                test.args(["--exact", std::thread::current().name().unwrap()]);
                test.env("AFFERENT_TEST_TIME", time).env("TZ", zone);
                let output = test.output().unwrap();
                assert!(output.status.success(), "{zone}: {output:?}");
            }
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tools.yaml");
        fs::write(&path, "x: {time: {}}").unwrap();
        let values: ParamValues = [("tools".to_owned(), ParamValue::Path(path))].into();
        let params = ToolParams::from_values(&values).unwrap();
        let cx = OpenCx::with_service(SessionStart::VIRTUAL);
        let mut bench = NodeBench::new(Tool::open(params, &cx).unwrap());
        let call = ToolMessage { turn: 1, tool: "x".into(), json: "{}".into() };
        let sent = bench.call(Tool::CALLS, Timestamp(0), call).unwrap();
        let json = &sent[0].1.get::<ToolMessage>().unwrap().json;
        assert!(json.contains(&format!("\"time\":\"{expected}\"")), "{json}");
        assert!(json.contains("\"day\":\"saturday\""), "{json}");
    }

    #[test]
    fn timers_expire_in_order() {
        let (mut bench, _folder) = open("t: {timer: {}}").unwrap();
        for (turn, json) in [(1, "{\"seconds\": 90}"), (2, "{\"minutes\": 1}"), (3, "{}")] {
            let call = ToolMessage { turn, tool: "t".into(), json: json.into() };
            let sent = bench.call(Tool::CALLS, Timestamp(0), call).unwrap();
            let ok = sent[0].1.get::<ToolMessage>().unwrap().json.contains("true");
            assert_eq!(ok, turn < 3, "{json}");
        }
        bench.cancel(Timestamp(1)).unwrap();
        let alarms = bench.advance(Timestamp(100_000_000_000)).unwrap();
        let turns = alarms.iter().map(|(at, _, packet)| (at.0, packet.get::<Text>().unwrap().turn));
        assert_eq!(turns.collect::<Vec<_>>(), [(60_000_000_000, 2), (90_000_000_000, 1)]);
    }

    #[test]
    #[cfg(unix)]
    fn commands_return_in_time_or_are_stopped() {
        check("x: {command: [cat]}", "x", "{\"a\": 1}", "{\"a\":1}");
        check(
            "x: {command: [echo, hello]}",
            "x",
            "{}",
            "{\"error\":\"echo returned hello, which is not a JSON object\"}",
        );
        check("x: {command: ['false']}", "x", "{}", "{\"error\":\"false failed: exit status: 1");
        check("x: {command: [no-such-program]}", "x", "{}", "{\"error\":\"no-such-program: ");
        let slow = "x: {command: [sleep, '60'], timeout: 50ms}";
        check(slow, "x", "{}", "{\"error\":\"sleep took longer than 50ms\"}");
        let leaves = "x: {command: [sh, -c, \"echo '{}'; sleep 30 &\"], timeout: 5s}";
        check(leaves, "x", "{}", "{}");
        let silent = "x: {command: [sh, -c, \"echo '{}'; exec >&-; sleep 3\"], timeout: 50ms}";
        check(silent, "x", "{}", "{\"error\":\"sh took longer than 50ms\"}");
        check(
            "x: {command: [yes]}",
            "x",
            "{}",
            "{\"error\":\"yes returned more than 65536 bytes\"}",
        );
    }

    /// A descendant would write a file after the timeout.
    #[test]
    #[cfg(unix)]
    fn descendants_of_a_stopped_command_end() {
        let tools = "x: {command: [sh, -c, \"(sleep 0.5; touch late) & sleep 60\"], timeout: 50ms}";
        let (mut bench, folder) = open(tools).unwrap();
        let call = ToolMessage { turn: 1, tool: "x".into(), json: "{}".into() };
        let sent = bench.call(Tool::CALLS, Timestamp(0), call).unwrap();
        assert!(sent[0].1.get::<ToolMessage>().unwrap().json.contains("took longer"));
        std::thread::sleep(Duration::from_secs(1));
        assert!(!folder.path().join("late").exists());
    }

    #[test]
    fn unresponsive_servers_are_errors() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = silent.local_addr().unwrap();
        let slow = format!("x: {{http: 'http://{at}/', timeout: 50ms}}");
        check(&slow, "x", "{}", &format!("{{\"error\":\"http://{at}/: timeout"));
        check("x: {http: 'http://127.0.0.1:9/'}", "x", "{}", "{\"error\":\"http://127.0.0.1:9/: ");
    }

    #[test]
    fn invalid_tool_files_are_rejected() {
        for (tools, expected) in [
            ("x: {tiem: {}}", "tiem"),
            ("x: {time: {}, timer: {}}", "tool x: expected exactly one of"),
            ("x: {}", "tool x: expected exactly one of"),
            ("x: {command: []}", "tool x: the command is empty"),
            ("x: {time: {}, timeout: soon}", "soon"),
            ("- x", "tools.yaml: "),
        ] {
            let Err(error) = open(tools) else { panic!("{tools} was accepted") };
            assert!(error.to_string().contains(expected), "{tools}: {error}");
        }
    }
}
