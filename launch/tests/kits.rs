//! The deployments of `launch/kits`, each machine a program on this one.
#![cfg(all(target_os = "linux", feature = "net"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

use runs::{check_accounts, report};

#[path = "shared/runs.rs"]
#[expect(dead_code, reason = "for other tests")]
mod runs;

/// Runs `kit` on its machines; returns what each printed. The first one reports on all. `listens` is
/// the machine whose address is replaced by a free one.
fn run(kit: &str, machines: [&str; 2], listens: &str, folder: &Path, args: &[&str]) -> Vec<String> {
    let graph = Path::new(env!("CARGO_MANIFEST_DIR")).join("kits").join(kit);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let addresses = format!("machines: {{{listens}: {{listen: \"tcp/127.0.0.1:{port}\"}}}}\n");
    fs::write(folder.join("machines.yaml"), addresses).unwrap();
    let runs = machines.map(|machine| {
        Command::new(env!("CARGO_BIN_EXE_afferent"))
            .current_dir(folder)
            .arg("run")
            .arg(&graph)
            .args(["--machine", machine, "--machines", "machines.yaml"])
            .args(["--stats", &format!("{machine}.json")])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let ended = runs.map(|run| {
        let Output { status, stdout, stderr } = run.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        assert!(status.success(), "{kit}: {text}");
        text
    });
    ended.to_vec()
}

#[test]
fn glasses_hear_and_speak_and_the_phone_answers() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let answer = format!("agent/speaker.path={}", at("answer.wav"));
    let wake = format!("cue.path={}", at("wake.txt"));
    let args = ["--set", &*answer, "--set", &*wake];
    let machines = ["glasses", "phone"];
    let told = run("glasses_and_phone.yaml", machines, "phone", folder.path(), &args);
    for answer in ["there are seven days in a week", "the kitchen light is on"] {
        assert!(told[1].contains(answer), "{answer}: {}", told[1]);
    }
    let answer = hound::WavReader::open(folder.path().join("answer.wav")).unwrap();
    let rate = answer.spec().sample_rate;
    let loud = answer.into_samples::<i16>().filter(|sample| sample.as_ref().unwrap().abs() > 500);
    assert!(loud.count() > rate as usize / 2, "two answers are spoken");
    let report = report(folder.path(), "glasses");
    check_accounts(&report);
    assert!(report.edges.iter().all(|edge| edge.lost == 0), "{:?}", report.edges);
    // Speech is 2.5 s of 13 s.
    let [all, speech] = ["agent/resample.audio", "agent/vad.speech"]
        .map(|output| report.edges.iter().find(|edge| edge.from == output).unwrap().counts.sent);
    assert!(speech < all / 4, "silence stays on the glasses: {speech} of {all} blocks");
}

#[test]
fn a_robot_sends_images_and_sound_to_its_base() {
    let folder = tempfile::tempdir().unwrap();
    let images = format!("images.path={}", folder.path().join("images").display());
    let machines = ["robot", "base"];
    run("robot_and_base.yaml", machines, "robot", folder.path(), &["--set", &images]);
    let report = report(folder.path(), "robot");
    check_accounts(&report);
    let images = fs::read_dir(folder.path().join("images")).unwrap().count() as u64;
    let edge = report.edge("camera.images", "images.images").unwrap();
    assert_eq!((edge.counts.sent, edge.counts.delivered), (90, images), "{edge:?}");
    assert!(images > 45, "{images} of 90 images");
    assert_eq!(report.node("log").unwrap().packets_in, 4, "two utterances start and end");
}
