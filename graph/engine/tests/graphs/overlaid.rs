//! Profiles and settings that are wrong, and files that cannot be read.

use afferent_engine::{LoadOptions, load_and_check};
use afferent_graph::OpenCx;

use crate::broken::{check, told};

#[test]
fn profiles_and_settings() {
    let text = "afferent: 1
nodes:
  mic: {use: wav_source, params: {path: a.wav}}
  vad: {use: vad, in: mic}
  out: {use: print, in: vad.audio}
profiles:
  live:
    nodes:
      mic: {use: microphone, params: {devise: x}}
      vat: {params: {threshold: 2}}
      out: {prams: {}}
  bare: {nodes: {vad: ~}, name: x}
  loud: {nodes: {mic: {params: {gain_db: 99}}}}
";
    let always = [
        "10:7 profile \"live\" changes node \"vat\", which the graph does not have | did you mean \"vad\"?",
        "11:13 unknown key \"prams\" of node \"out\" | did you mean \"params\"?",
        "12:27 unknown key \"name\" of profile \"bare\" | the keys of profile \"bare\": nodes",
    ];
    let with = |more: &[(usize, &'static str)]| {
        let mut all = always.to_vec();
        more.iter().for_each(|(at, fault)| all.insert(*at, fault));
        all
    };
    check(text, None, &[], &always);
    check(
        text,
        Some("live"),
        &[],
        &with(&[(
            0,
            "9:39 unknown parameter \"devise\" of node \"mic\" | the parameters of microphone: there are none",
        )]),
    );
    check(
        text,
        Some("bare"),
        &[],
        &with(&[(0, "5:25 unknown node \"vad\" | profile \"bare\" removes it")]),
    );
    check(
        text,
        Some("loud"),
        &[],
        &with(&[(
            3,
            "13:42 parameter \"gain_db\" of node \"mic\": 99 is out of range: -60 to 20 dB",
        )]),
    );
    check(
        text,
        Some("lives"),
        &[],
        &with(&[(3, "--profile1:1 there is no profile \"lives\" | did you mean \"live\"?")]),
    );
    check(
        text,
        None,
        &["vad.treshold=0.5", "vid.x=1", "vad", "vad.threshold=[", "mic.gain_db= 99 "],
        &with(&[
            (
                3,
                "--set1:5 unknown parameter \"treshold\" of node \"vad\" | did you mean \"threshold\"?",
            ),
            (4, "--set1:1 there is no node \"vid\" to set a parameter of | did you mean \"vad\"?"),
            (5, "--set1:1 \"vad\" is not written \"node.param=value\""),
            (6, "--set1:15 not valid YAML: unclosed bracket '['"),
            (
                7,
                "--set1:14 parameter \"gain_db\" of node \"mic\": 99 is out of range: -60 to 20 dB",
            ),
        ]),
    );
}

#[test]
fn files_that_cannot_be_read() {
    let folder = std::env::temp_dir().join(format!("afferent-broken-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let cases: [(&str, &[u8], &str); 2] = [
        ("latin.yaml", b"afferent: 1\nname: caf\xe9\n", "line 2 is not UTF-8 text"),
        ("long.yaml", &vec![b'#'; (1 << 20) + 1], "it is longer than 1048576 bytes"),
    ];
    for (name, bytes, expected) in cases {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        let faults = load_and_check(&path, &LoadOptions::default(), &[], &OpenCx::default());
        let expected = [format!("cannot read {}: {expected}", path.display())];
        assert_eq!(told(&faults.unwrap_err()), expected);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let faults = load_and_check(&folder, &LoadOptions::default(), &[], &OpenCx::default());
    assert!(faults.unwrap_err().to_string().starts_with("error: cannot read "));
}
