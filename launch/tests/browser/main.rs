//! The page of a running graph in headless Chromium. Without Chromium the tests are skipped.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it skips"
)]

mod chromium;
mod first_sound;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../shared/live.rs"]
mod live;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use chromium::{Browser, Tab};
use first_sound::KEEP_SOUND;
use live::LiveRun;
use serde_json::Value;

/// Longest wait for something on a page.
const PATIENCE: Duration = Duration::from_secs(40);

fn pipelines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines").canonicalize().unwrap()
}

/// Waits until `expression` is true on the page.
fn wait(tab: &mut Tab, expression: &str) {
    let limit = Instant::now() + PATIENCE;
    while tab.evaluate(expression) != Value::Bool(true) {
        let text = tab.evaluate("document.body.innerText");
        assert!(Instant::now() < limit, "never true: {expression}\n{text}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Saves a screenshot in the folder that the variable names, for people to look at.
fn screenshot(tab: &mut Tab, name: &str) {
    if let Some(folder) = std::env::var_os("AFFERENT_SCREENSHOTS") {
        fs::write(Path::new(&folder).join(name), tab.screenshot()).unwrap();
    }
}

#[test]
fn the_page_shows_the_graph_its_conversation_and_figures() {
    let Some(mut browser) = Browser::start(&[]) else { return };
    let run = LiveRun::start(&pipelines().join("voice_agent.yaml"), &["--duration", "30s"]);
    let mut tab = browser.open(&run.page, 1280);
    wait(&mut tab, "document.getElementById('name').textContent === 'voice_agent'");
    wait(&mut tab, "document.querySelectorAll('.node').length === 12");
    wait(&mut tab, "document.querySelectorAll('.edge').length > 15");
    wait(
        &mut tab,
        "document.getElementById('turns').textContent.includes('there are seven days in')",
    );
    wait(&mut tab, "document.querySelectorAll('#waterfall .bar').length > 4");
    wait(&mut tab, "document.querySelectorAll('#waves canvas').length > 2");
    let wall = "Number(document.getElementById('state').dataset.wall)";
    let earlier = tab.evaluate(wall).as_f64().unwrap();
    wait(&mut tab, &format!("{wall} > {earlier}"));
    // By the keyboard: the first node, then its figures.
    tab.evaluate("document.querySelector('.node').focus()");
    tab.key("Enter");
    wait(&mut tab, "document.getElementById('details').textContent.includes('packets out')");
    screenshot(&mut tab, "live-1280.png");
    tab.resize(390);
    let is_narrow = "document.documentElement.scrollWidth <= 390";
    wait(&mut tab, is_narrow);
    screenshot(&mut tab, "live-390.png");
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn the_page_shows_images() {
    shows_images(&[], &[]);
}

#[test]
#[cfg(feature = "tls")]
fn the_page_is_shown_over_tls() {
    shows_images(&["--ignore-certificate-errors"], &["--tls"]);
}

fn shows_images(flags: &[&str], arguments: &[&str]) {
    let Some(mut browser) = Browser::start(flags) else { return };
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("camera.yaml");
    let nodes = "camera: {use: test_pattern, params: {fps: 10, count: 600}}";
    fs::write(&graph, format!("afferent: 1\nnodes:\n  {nodes}\n")).unwrap();
    let run = LiveRun::start(&graph, arguments);
    let mut tab = browser.open(&run.page, 1280);
    let is_secure = format!("isSecureContext && location.origin === {:?}", run.page);
    wait(&mut tab, &is_secure);
    wait(&mut tab, "document.querySelector('#shown img')?.naturalWidth === 640");
    let source = tab.evaluate("document.querySelector('#shown img').src").to_string();
    wait(&mut tab, &format!("document.querySelector('#shown img').src !== {source}"));
    assert_eq!(tab.errors(), Vec::<String>::new());
}

/// Answers to the questions in `assets/question.wav`.
const ANSWERS: [&str; 2] = ["seven days", "kitchen light is on"];

#[test]
fn a_user_talks_to_the_agent_by_a_browser() {
    // Sessions of two questions; ten of them show the bar of 18 answers of 20.
    let sessions = std::env::var("AFFERENT_SESSIONS").ok().and_then(|text| text.parse().ok());
    let (mut right, sessions) = (0, sessions.unwrap_or(1));
    let (mut by_browser, mut by_files) = (Vec::new(), Vec::new());
    let graph = pipelines().join("voice_agent.yaml");
    for session in 0..sessions {
        let sound = pipelines().join("assets/question.wav");
        let capture = format!("--use-file-for-fake-audio-capture={}%noloop", sound.display());
        let flags = [
            "--use-fake-device-for-media-stream",
            "--use-fake-ui-for-media-stream",
            "--autoplay-policy=no-user-gesture-required",
            &capture,
        ];
        let Some(mut browser) = Browser::start(&flags) else { return };
        let run = LiveRun::start(&graph, &["--profile", "browser"]);
        let mut tab = browser.open(&run.page, 390);
        let drawn = "document.querySelectorAll('.node').length === 12";
        wait(&mut tab, &format!("{drawn} && !document.getElementById('devices').hidden"));
        tab.evaluate(KEEP_SOUND);
        tab.evaluate("document.getElementById('start').click()");
        wait(&mut tab, "document.querySelectorAll('#device-list .good').length === 2");
        let said = "document.getElementById('turns').textContent.includes('kitchen light is on')";
        wait(&mut tab, said);
        // Until the second answer is played.
        thread::sleep(Duration::from_secs(3));
        let heard = recognized(&tab.evaluate("window.heard"));
        let found = ANSWERS.iter().filter(|answer| heard.contains(*answer)).count();
        println!("session {session}: heard {heard:?}, {found} of 2 answers");
        right += found;
        let blocks = |tab: &mut Tab, list: &str| first_sound::of_page(&tab.evaluate(list));
        let (said, played) = (blocks(&mut tab, "window.said"), blocks(&mut tab, "window.played"));
        by_browser.extend(first_sound::first_sounds(&said, &played));
        assert_eq!(tab.errors(), Vec::<String>::new());
        drop((tab, browser, run));
        // For the comparison, which the tests of each change do not need.
        if sessions > 1 {
            by_files.extend(first_sound::of_files(&graph));
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    };
    println!(
        "first sound after the end of a question: {:.0} ms in the browser",
        median(by_browser)
    );
    if !by_files.is_empty() {
        println!("first sound with files: {:.0} ms", median(by_files));
    }
    println!("{right} of {} answers were heard and recognized", 2 * sessions);
    assert!(10 * right >= 9 * 2 * sessions || sessions == 1 && right > 0);
}

/// Text of the sound that a page played, by the recognizer of the shipped graphs.
fn recognized(samples: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let sound = folder.path().join("heard.wav");
    let mut writer = hound::WavWriter::create(&sound, spec).unwrap();
    let samples = samples.as_array().expect("a list of samples").iter();
    let samples = samples.map(|sample| (sample.as_f64().unwrap() * 32767.0) as i16);
    // The end of speech needs a silence after it.
    samples.chain([0; 16_000]).for_each(|sample| writer.write_sample(sample).unwrap());
    writer.finalize().unwrap();
    let models = pipelines().join("models");
    let graph = folder.path().join("hear.yaml");
    let text = format!(
        "afferent: 1\nnodes:\n  sound: {{use: wav_source, params: {{path: heard.wav, block: 20ms}}}}\n  \
         vad: {{use: vad, in: sound.audio, params: {{model: {models}/vad}}}}\n  asr: {{use: asr, in: \
         {{audio: vad.speech, events: vad.events}}, params: {{model: {models}/asr}}}}\n  log: {{use: \
         event_log, in: asr.transcript, params: {{format: plain}}}}\n",
        models = models.display()
    );
    fs::write(&graph, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_afferent"))
        .args(["run", "--virtual"])
        .arg(&graph)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).replace('\n', " ")
}
