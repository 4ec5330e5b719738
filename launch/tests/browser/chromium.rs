//! Headless Chromium over its DevTools protocol.

use std::{
    env,
    io::{BufRead, BufReader},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::Engine;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket, stream::MaybeTlsStream};

/// Names of the program.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A running browser.
pub(crate) struct Browser {
    process: Child,
    address: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser with further arguments; `None`, with a message, if there is none.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        let paths = env::var_os("PATH").unwrap_or_default();
        let mut programs = env::split_paths(&paths)
            .flat_map(|folder| PROGRAMS.map(|program| folder.join(program)));
        let Some(program) = programs.find(|program| program.is_file()) else {
            println!("skipped: no Chromium ({})", PROGRAMS.join(", "));
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(arguments)
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            Some(line.ok()?.split_once("DevTools listening on ")?.1.trim().to_owned())
        });
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.expect("Chromium prints its address");
        Some(Self { process, address, _profile: profile })
    }

    /// Opens a page in a window of this width.
    pub(crate) fn open(&mut self, url: &str, width: u32) -> Tab {
        let (socket, _) = tungstenite::connect(&self.address).unwrap();
        let mut tab = Tab { socket, session: String::new(), calls: 0, errors: Vec::new() };
        // The window that it starts with is in the foreground: others get no sound.
        let targets = tab.call("Target.getTargets", &json!({}));
        let mut targets = targets["targetInfos"].as_array().unwrap().iter();
        let window = targets.find(|target| target["type"] == "page").expect("a window");
        let target = json!({"targetId": window["targetId"], "flatten": true});
        tab.session =
            tab.call("Target.attachToTarget", &target)["sessionId"].as_str().unwrap().into();
        for domain in ["Runtime", "Log", "Page"] {
            tab.call(&format!("{domain}.enable"), &json!({}));
        }
        tab.resize(width);
        tab.call("Page.navigate", &json!({"url": format!("{url}/")}));
        let is_loaded = "location.href !== 'about:blank' && document.readyState === 'complete'";
        while tab.evaluate(is_loaded) != Value::Bool(true) {
            std::thread::sleep(Duration::from_millis(20));
        }
        tab
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        // Its processes write to the profile until they have ended.
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// An open page.
pub(crate) struct Tab {
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    session: String,
    calls: u64,
    /// Errors on the console, and exceptions.
    errors: Vec<String>,
}

impl Tab {
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": params});
        if !self.session.is_empty() {
            call["sessionId"] = self.session.clone().into();
        }
        self.socket.send(Message::text(call.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == self.calls {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    /// Keeps errors of the page.
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let is_error = match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => true,
            "Runtime.consoleAPICalled" => params["type"] == "error",
            "Log.entryAdded" => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(params.to_string());
        }
    }

    /// Value of an expression on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "userGesture": true,
        });
        let found = self.call("Runtime.evaluate", &params);
        assert!(found.get("exceptionDetails").is_none(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Presses a key.
    pub(crate) fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", &json!({"type": kind, "key": key, "code": key}));
        }
    }

    /// Sets the width of the window.
    pub(crate) fn resize(&mut self, width: u32) {
        let metrics =
            json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// PNG file of the whole page.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let found = self.call("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let data = found["data"].as_str().unwrap_or_default();
        base64::engine::general_purpose::STANDARD.decode(data).unwrap()
    }

    /// Errors so far.
    pub(crate) fn errors(&mut self) -> Vec<String> {
        std::mem::take(&mut self.errors)
    }
}
