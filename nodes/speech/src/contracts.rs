//! Contracts of the models that the nodes of this crate accept, by the methods of their programs.

use std::path::Path;

use afferent_core::ScalarType;
use afferent_package::Contract;
use afferent_runtime::ModelFile;

pub use crate::tts::VOICE_FOLDERS;
use crate::{
    asr::{hearing, moonshine, transducer, voxtral, whisper},
    classify_text,
    diarize::sortformer,
    embed_text,
    programs::Step,
    translate,
    tts::{kokoro, supertonic, voxtral as voxtral_tts},
    vad::fsmn,
};

/// Forms that are recognized, for messages.
pub const ACCEPTED: &[&str] = &[
    "vad: (f32[1, samples], f32 state) -> (f32[1, 1], f32 state), or f32[windows, 512] -> f32[1, windows, \
     classes]",
    "wake_word, asr: (f32 features, f32 state) -> (f32[rows, labels], f32 state)",
    "asr, Whisper: encoder(mel[1, 80 or 128, 3000]) or encode(f32[samples]), and text_decoder(i64[1, 1], \
     rows, i64[1]), decode(i64[1, n], i64[n], rows), decoder(i64[1, n], rows), or forward of programs \
     encoder and decoder",
    "classify_text: (i64[1, n], i64[1, n]) -> [1, classes], with the names of the classes",
    "embed_text: (i64[1, n], i64[1, n]) -> [1, dimensions]",
    "tts, Supertonic: duration_predictor, text_encoder, vector_estimator and vocoder, as methods or programs",
    "tts, Voxtral: token_embedding, text_decoder, semantic_head, predict_velocity, audio_token_embedding, \
     and a program codec_decoder",
    "tts, Kokoro: programs duration_predictor and synthesizer",
    "translate: encoder(i64[1, n]) and text_decoder(i64[1, 1], rows, i64[1])",
    "asr, Voxtral Realtime: encode_audio_chunk(mel[1, bands, columns], i64[n]), token_embedding(i64[1, n]), \
     text_decoder(f32[1, n, width], i64[n])",
    "asr, Moonshine: forward(f32[1, samples]) of a program encoder, forward_cached(i64[1, n], rows) -> ids \
     of a program decoder",
    "asr, Voxtral: audio_encoder(mel[parts, bands, 3000]), token_embedding(i64[1, n]), text_decoder(f32[1, n, \
     width], i64[n])",
    "asr, Parakeet: preprocessor(f32[samples], i64[1]), encoder(mel, i64[1]), decoder_step(i64[1, 1], h, \
     c), joint(f, g)",
    "diarize, Sortformer: pre_encode(f32[1, columns, bands], i64[1]), encode(f32[1, rows, width], i64[1]), and \
     preprocessor(f32[samples], i64[1]) if there is one",
];

/// Contracts that the programs of a model may have, each with its role; the role of a single program is
/// empty. The model has `labels` names of classes, 0 if they are not known.
pub fn recognize(programs: &[(&str, &ModelFile)], labels: usize) -> Vec<Contract> {
    let contract = |node, task, contract, has_labels| Contract { node, task, contract, has_labels };
    let speech = |name| contract("asr", "speech_recognition", name, false);
    let found = transducer::contract(programs).or_else(|| voxtral::contract(programs));
    let found = found.or_else(|| hearing::contract(programs));
    let found = found.or_else(|| moonshine::contract(programs));
    if let Some(name) = found.or_else(|| whisper::contract(programs)) {
        return vec![speech(name)];
    }
    if let Some(name) = sortformer::contract(programs) {
        return vec![contract("diarize", "speaker_diarization", name, false)];
    }
    let voice = supertonic::contract(programs).or_else(|| kokoro::contract(programs));
    let voice = voice.or_else(|| voxtral_tts::contract(programs));
    if let Some(name) = voice {
        return vec![contract("tts", "text_to_speech", name, false)];
    }
    if let Some(name) = translate::contract(programs) {
        return vec![contract("translate", "translation", name, false)];
    }
    if programs.len() > 1 {
        return Vec::new();
    }
    if let Some(name) = classify_text::contract(programs, labels) {
        return vec![contract("classify_text", "text_classification", name, true)];
    }
    if let Some(name) = embed_text::contract(programs) {
        return vec![contract("embed_text", "text_embedding", name, false)];
    }
    if let Some(name) = fsmn::contract(programs) {
        return vec![contract("vad", "voice_activity", name, false)];
    }
    match recurrent(programs) {
        Some(Recurrent::Probability) => {
            vec![contract("vad", "voice_activity", "silero_vad", false)]
        }
        Some(Recurrent::Scores) => vec![
            contract("wake_word", "keyword_spotting", "keyword_scores", true),
            contract("asr", "speech_recognition", "streaming_ctc", true),
        ],
        None => Vec::new(),
    }
}

/// Test for the files that are voices of a model with the contract `contract`; `None` if it has none.
pub fn voice_test(contract: &str) -> Option<fn(&Path) -> bool> {
    match contract.split('@').next()? {
        "supertonic" | "supertonic-rne" => Some(supertonic::is_voice),
        "kokoro-rne" => Some(kokoro::is_voice),
        "voxtral_tts" => Some(voxtral_tts::is_voice),
        _ => None,
    }
}

/// Result of a recurrent model.
enum Recurrent {
    Probability,
    Scores,
}

/// Result of `forward(input, state) -> (result, state)`, with tensors of a fixed size.
fn recurrent(programs: &[(&str, &ModelFile)]) -> Option<Recurrent> {
    let step = Step::find(programs, &["forward"])?;
    let signature = &step.signature;
    let (inputs, outputs) = (signature.tensor_inputs()?, signature.tensor_outputs()?);
    let ([input, state], [result, next]) = (inputs.as_slice(), outputs.as_slice()) else {
        return None;
    };
    let all = [input, state, result, next];
    let is_fixed = all.iter().all(|spec| spec.dtype == ScalarType::Float && spec.is_static);
    match (result.sizes.as_slice(), input.sizes.as_slice()) {
        _ if !is_fixed || state.sizes != next.sizes => None,
        ([1, 1], [1, _]) => Some(Recurrent::Probability),
        _ => Some(Recurrent::Scores),
    }
}
