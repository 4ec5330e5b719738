//! `pipelines/glasses_wake.yaml` with a microcontroller in QEMU: a sound file is spoken to the device,
//! and the answer of the agent is in a file.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "prints the log and what is skipped")]

use std::{
    env,
    ffi::OsString,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

/// Variable with the path of the firmware, which `.ci/firmware` sets.
const FIRMWARE: &str = "AFFERENT_FIRMWARE_M4";

fn pipelines(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines").join(name)
}

/// Samples of an asset from `start_s` to `end_s`.
fn part(name: &str, start_s: f64, end_s: f64) -> Vec<i16> {
    let mut file = WavReader::open(pipelines("assets").join(name)).unwrap();
    let all: Vec<i16> = file.samples().map(Result::unwrap).collect();
    let at = |seconds: f64| ((seconds * 16_000.0) as usize).min(all.len());
    all[at(start_s)..at(end_s)].to_vec()
}

/// Writes "hey afferent", a question, and two seconds of silence.
fn write_question(path: &Path) {
    let format = WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut file = WavWriter::create(path, format).unwrap();
    let parts = [part("wake_word.wav", 2.4, 4.3), part("question.wav", 6.4, 8.4), vec![0; 32_000]];
    parts.concat().into_iter().for_each(|sample| file.write_sample(sample).unwrap());
    file.finalize().unwrap();
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts the device. Its UART waits for a connection on `port`.
fn device(firmware: &OsString, sound: &Path, port: u16, is_live: bool) -> Running {
    let live = if is_live { ",arg=live" } else { "" };
    let sound = sound.display();
    let child = Command::new("qemu-system-arm")
        .args(["-machine", "mps2-an386", "-display", "none", "-monitor", "none", "-serial"])
        .arg(format!("tcp:127.0.0.1:{port},server=on"))
        .arg("-semihosting-config")
        .arg(format!("enable=on,target=native,arg=listen,arg={sound}{live}"))
        .arg("-kernel")
        .arg(firmware)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("qemu-system-arm runs"))
}

/// The graph with its log and answer in `folder`, connected to `port`.
fn host(folder: &Path, port: u16) -> Running {
    let child = Command::new(env!("CARGO_BIN_EXE_afferent"))
        .arg("run")
        .arg(pipelines("glasses_wake.yaml"))
        .arg("--set")
        .arg(format!("mcu.device=tcp://127.0.0.1:{port}"))
        .arg("--set")
        .arg(format!("log.path={}", folder.join("log.txt").display()))
        .args(["--set", "log.format=json"])
        .arg("--set")
        .arg(format!("speaker.path={}", folder.join("answer.wav").display()))
        .stdout(Stdio::null())
        .stderr(Stdio::from(fs::File::create(folder.join("errors.txt")).unwrap()))
        .spawn();
    Running(child.unwrap())
}

/// Line to the device that passes its bytes to the graph, and disturbs them.
struct Relay {
    from: TcpStream,
    to: TcpStream,
}

impl Relay {
    /// Connects to the device, and accepts the graph.
    fn open(device: u16, listener: &TcpListener) -> Self {
        let from = wait_for("the device", || TcpStream::connect(("127.0.0.1", device)).ok());
        from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        Self { from, to: listener.accept().unwrap().0 }
    }

    /// Passes bytes until `is_done`, or the device ends.
    fn pass(&mut self, mut is_done: impl FnMut() -> bool) {
        let mut bytes = [0; 1024];
        let start = Instant::now();
        while !is_done() {
            assert!(start.elapsed() < LIMIT, "too long");
            match self.from.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => self.to.write_all(&bytes[..count]).unwrap(),
                Err(_) => {}
            }
        }
    }
}

/// Longest wait for anything. The graph loads its models first.
const LIMIT: Duration = Duration::from_secs(120);

#[track_caller]
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "{what} did not come");
        thread::sleep(Duration::from_millis(20));
    }
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log.txt")).unwrap_or_default()
}

/// Processor time of a process, in seconds, as Linux counts it.
#[cfg(target_os = "linux")]
fn cpu_s(process: &Running) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.0.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // Fields 14 and 15 of the file, in ticks of 10 ms.
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// The firmware, or `None` without it.
fn firmware() -> Option<OsString> {
    let found = env::var_os(FIRMWARE);
    if found.is_none() {
        println!("skipped: the device, because {FIRMWARE} is not set (.ci/firmware)");
    }
    found
}

#[test]
fn a_question_after_the_wake_word_is_answered() {
    let Some(firmware) = firmware() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (folder, sound, port) = (folder.path(), folder.path().join("sound.wav"), free_port());
    write_question(&sound);
    let mut host = host(folder, port);
    let _device = device(&firmware, &sound, port, true);
    wait_for("the answer", || {
        assert!(host.0.try_wait().unwrap().is_none(), "{}", log(folder));
        log(folder).contains("the kitchen light is on").then_some(())
    });
    let log = log(folder);
    println!("{log}");
    assert!(log.contains("hey afferent"), "{log}");
    assert!(log.contains("turn on the lights in the kitchen"), "{log}");
    wait_for("the sound of the answer", || {
        let answer = WavReader::open(folder.join("answer.wav")).ok()?;
        let loud = |sample: Result<i16, _>| sample.is_ok_and(|sample: i16| sample.abs() > 1000);
        answer.into_samples::<i16>().any(loud).then_some(())
    });
}

#[test]
fn a_disturbed_line_and_a_killed_device_are_survived() {
    let Some(firmware) = firmware() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (folder, sound) = (folder.path(), folder.path().join("sound.wav"));
    write_question(&sound);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut host = host(folder, listener.local_addr().unwrap().port());
    let count = |text: &str| log(folder).matches(text).count();

    // Noise between messages, and a message that is cut.
    let port = free_port();
    let first = device(&firmware, &sound, port, true);
    let mut relay = Relay::open(port, &listener);
    relay.pass(|| count("\"connected\":true") >= 2);
    relay.to.write_all(&[0x5a; 700]).unwrap();
    relay.to.write_all(&[0, 9, 9, 9, 0]).unwrap();
    relay.pass(|| log(folder).contains("\"garbage\":2"));
    // The cable is cut, and the device goes on.
    drop(relay);
    wait_for("the loss", || log(folder).contains("\"connected\":false").then_some(()));
    drop(first);

    // The device starts again, and is killed.
    let port = free_port();
    let second = device(&firmware, &sound, port, true);
    let mut relay = Relay::open(port, &listener);
    relay.pass(|| log(folder).contains("\"connections\":2"));
    relay.pass(|| log(folder).contains("the kitchen light is on"));
    drop(second);
    relay.pass(|| false);
    drop(relay);
    wait_for("the second loss", || (count("\"connected\":false") == 2).then_some(()));
    assert!(host.0.try_wait().unwrap().is_none(), "the host ended");
    println!("{}", log(folder));
}

/// The host sleeps while the device listens.
#[test]
#[cfg(target_os = "linux")]
fn an_idle_host_sleeps() {
    let Some(firmware) = firmware() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (folder, sound, port) = (folder.path(), folder.path().join("sound.wav"), free_port());
    fs::copy(pipelines("assets/other_speech.wav"), &sound).unwrap();
    let host = host(folder, port);
    let _device = device(&firmware, &sound, port, true);
    wait_for("the second heartbeat", || {
        (log(folder).matches("\"connected\":true").count() >= 2).then_some(())
    });
    let (before, start) = (cpu_s(&host), Instant::now());
    thread::sleep(Duration::from_secs(5));
    let share = (cpu_s(&host) - before) / start.elapsed().as_secs_f64();
    println!("processor time of the host while the device listens: {:.2} %", 100.0 * share);
    assert!(!log(folder).contains("hey afferent"), "{}", log(folder));
    assert!(share < 0.1, "{share}");
}
