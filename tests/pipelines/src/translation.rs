//! `live_translation.yaml`: the speech of the sample is translated, and spoken over the speaker.

use afferent_messages::{AudioBlock, Text};

use crate::bench::{run_pipeline, services};

#[test]
fn each_sentence_is_translated_and_spoken_after_its_pause() {
    let wav = std::env::temp_dir().join(format!("afferent-spanish-{}.wav", std::process::id()));
    let set = [format!("speaker.path={}", wav.display()), "captions.path=/dev/null".to_owned()];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (sent, _) =
        run_pipeline("live_translation.yaml", &set, &["translate", "tts", "voices"], &services());
    std::fs::remove_file(&wav).unwrap();
    let texts = sent.iter().filter_map(|sent| {
        let text = sent.packet.get::<Text>()?;
        Some((text.text.as_str(), sent.packet.header.at))
    });
    let texts: Vec<_> = texts.collect();
    let expected = [
        "Pon un temporizador de veinticinco minutos.",
        "Enciende las luces del comedor.",
        "Lleva la manta a mi hermana.",
        "¿Dónde está la farmacia más cercana?",
    ];
    assert_eq!(texts.iter().map(|(text, _)| *text).collect::<Vec<_>>(), expected);
    let level = |node: &str, from, until| {
        let blocks = sent.iter().filter(|sent| sent.node == node);
        let blocks = blocks.filter(|sent| (from..until).contains(&sent.packet.header.at));
        let samples = blocks.filter_map(|sent| sent.packet.get::<AudioBlock>());
        let samples = samples.flat_map(|block| block.channel(0).unwrap().to_vec());
        samples.fold(0.0_f32, |loud, sample| loud.max(sample.abs()))
    };
    for (at, (text, from)) in texts.iter().enumerate() {
        let until = texts.get(at + 1).map_or(afferent_graph::Timestamp(i64::MAX), |(_, at)| *at);
        let said = level("tts", *from, until);
        assert!(said > 0.05, "{text} is not said: {said}");
        assert!(level("voices", *from, until) > 0.05, "{text} is not in the mix");
    }
}
