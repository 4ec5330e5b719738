//! Models of public sources: each folder, laid out as its source publishes it, gets the right contract by
//! `afferent package`, and `docs/compatibility.md` lists them. After a change of the table, write the page
//! with `AFFERENT_WRITE_DOCS=1 cargo test -p afferent --test compatibility`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fmt::Write,
    fs,
    path::Path,
    process::{Command, Output},
};

use afferent_package::ModelPackage;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A model as a source publishes it.
struct Published {
    family: &'static str,
    source: &'static str,
    /// Files of the repository, and their names in the folder of the source.
    files: &'static [(&'static str, &'static str)],
    /// Options that answer what the shapes leave open.
    options: &'static [&'static str],
    contract: &'static str,
    node: &'static str,
    /// Oracle that the results of the node were compared with.
    checked: &'static str,
}

/// Expands to the path of a file in a folder of test data.
macro_rules! at {
    ("speech", $file:literal) => {
        concat!("nodes/speech/tests/data/", $file)
    };
    ("text", $file:literal) => {
        concat!("runtime/text/tests/data/", $file)
    };
    ("vision", $file:literal) => {
        concat!("nodes/vision/tests/data/", $file)
    };
}

const WHISPER_FILES: (&str, &str) = (at!("speech", "whisper/tokenizer.json"), "tokenizer.json");
const SENTENCE_PIECE: (&str, &str) = (at!("text", "bpe.model"), "tokenizer.model");
const TOKENS: &str = "token for token with transformers";
const LOOP: &str =
    "token for token, time for time with the loop of the reference runner in PyTorch";
const SEEN: &str = "token for token with the loop of the reference runner in PyTorch";
const LOGITS: &str = "logits with PyTorch, conversations of 100 turns with fresh runs";
const VOICES: &str = "audio and times with the loop of the source in PyTorch";
const BOXES: &str = "boxes and masks with the post-processing of the source in PyTorch";

const PUBLISHED: &[Published] = &[
    Published {
        family: "language model",
        source: "ExecuTorch `export_llm`",
        files: &[(at!("text", "contract_custom.pte"), "llama3_2_xnnpack.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "llama",
        node: "llm",
        checked: LOGITS,
    },
    Published {
        family: "language model",
        source: "ExecuTorch, pair of `prefill` and `decode`",
        files: &[(at!("text", "methods_pair.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "llama",
        node: "llm",
        checked: LOGITS,
    },
    Published {
        family: "language model",
        source: "ExecuTorch, methods with adapters (LoRA)",
        files: &[(at!("text", "methods_lora.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "llama",
        node: "llm",
        checked: LOGITS,
    },
    Published {
        family: "language model",
        source: "optimum-executorch CausalLM",
        files: &[(at!("text", "contract_positions.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "llama",
        node: "llm",
        checked: LOGITS,
    },
    Published {
        family: "language model, recurrent cache (Qwen3.5, LFM2)",
        source: "ExecuTorch `export_llm`",
        files: &[(at!("text", "cache_recurrent.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "llama",
        node: "llm",
        checked: LOGITS,
    },
    Published {
        family: "language model, ring cache (Gemma, Mistral)",
        source: "ExecuTorch `export_llm`",
        files: &[(at!("text", "cache_ring.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "llama",
        node: "llm",
        checked: LOGITS,
    },
    Published {
        family: "Whisper",
        source: "ExecuTorch from 1.1, optimum-executorch",
        files: &[(at!("speech", "whisper/token/model.pte"), "model.pte"), WHISPER_FILES],
        options: &[],
        contract: "whisper",
        node: "asr",
        checked: TOKENS,
    },
    Published {
        family: "Whisper",
        source: "react-native-executorch from 0.8",
        files: &[
            (
                at!("speech", "whisper/positions/whisper_tiny_xnnpack.pte"),
                "whisper_tiny_en_xnnpack_fp32.pte",
            ),
            WHISPER_FILES,
        ],
        options: &[],
        contract: "whisper-rne@0.8",
        node: "asr",
        checked: TOKENS,
    },
    Published {
        family: "Whisper",
        source: "react-native-executorch 0.6 and 0.7",
        files: &[
            (
                at!("speech", "whisper/whole/whisper_tiny_encoder.pte"),
                "xnnpack_whisper_encoder.pte",
            ),
            (
                at!("speech", "whisper/whole/whisper_tiny_decoder.pte"),
                "xnnpack_whisper_decoder.pte",
            ),
            WHISPER_FILES,
        ],
        options: &[],
        contract: "whisper-rne@0.6",
        node: "asr",
        checked: TOKENS,
    },
    Published {
        family: "Whisper",
        source: "executorch-models collection",
        files: &[(at!("speech", "whisper/padded/model.pte"), "whisper.pte"), WHISPER_FILES],
        options: &[],
        contract: "whisper-padded",
        node: "asr",
        checked: TOKENS,
    },
    Published {
        family: "Parakeet TDT",
        source: "ExecuTorch from 1.1",
        files: &[(at!("speech", "parakeet/tdt.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "parakeet_tdt",
        node: "asr",
        checked: LOOP,
    },
    Published {
        family: "Parakeet RNN-T",
        source: "ExecuTorch from 1.1",
        files: &[(at!("speech", "parakeet/rnnt.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "parakeet_rnnt",
        node: "asr",
        checked: LOOP,
    },
    Published {
        family: "Voxtral Realtime, streaming",
        source: "ExecuTorch from 1.2",
        files: &[(at!("speech", "voxtral/model.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "voxtral_realtime",
        node: "asr",
        checked: LOOP,
    },
    Published {
        family: "Moonshine",
        source: "react-native-executorch 0.3 and 0.4",
        files: &[
            (
                at!("speech", "moonshine/moonshine_tiny_encoder.pte"),
                "moonshine_tiny_xnnpack_encoder.pte",
            ),
            (
                at!("speech", "moonshine/moonshine_tiny_decoder.pte"),
                "moonshine_tiny_xnnpack_decoder.pte",
            ),
            SENTENCE_PIECE,
        ],
        options: &[],
        contract: "moonshine-rne@0.3",
        node: "asr",
        checked: SEEN,
    },
    Published {
        family: "Voxtral 3B",
        source: "ExecuTorch MultimodalRunner",
        files: &[
            (at!("speech", "hearing/executorch/model.pte"), "model.pte"),
            (at!("speech", "hearing/tekken.json"), "tekken.json"),
        ],
        options: &[],
        contract: "voxtral",
        node: "asr",
        checked: SEEN,
    },
    Published {
        family: "Voxtral 3B",
        source: "optimum-executorch",
        files: &[
            (at!("speech", "hearing/optimum/model.pte"), "model.pte"),
            (at!("speech", "hearing/tekken.json"), "tekken.json"),
        ],
        options: &[],
        contract: "voxtral",
        node: "asr",
        checked: SEEN,
    },
    Published {
        family: "Silero VAD",
        source: "ExecuTorch from 1.2",
        files: &[("pipelines/models/vad/vad_xnnpack.pte", "silero_vad.pte")],
        options: &[],
        contract: "silero_vad",
        node: "vad",
        checked: "probabilities with ExecuTorch's runtime",
    },
    Published {
        family: "FSMN VAD",
        source: "react-native-executorch",
        files: &[(at!("speech", "fsmn/fsmn.pte"), "fsmn-vad_xnnpack.pte")],
        options: &[],
        contract: "fsmn_vad",
        node: "vad",
        checked: "probabilities with PyTorch",
    },
    Published {
        family: "Sortformer",
        source: "ExecuTorch from 1.2",
        files: &[(at!("speech", "sortformer/sortformer.pte"), "sortformer.pte")],
        options: &[],
        contract: "sortformer",
        node: "diarize",
        checked: "probabilities and turns with the loop of the reference runner in PyTorch",
    },
    Published {
        family: "Supertonic",
        source: "ExecuTorch 1.5",
        files: &[
            (at!("speech", "supertonic/one/supertonic.pte"), "model.pte"),
            (at!("speech", "supertonic/unicode_indexer.json"), "unicode_indexer.json"),
            (at!("speech", "supertonic/F1.json"), "F1.json"),
        ],
        options: &[],
        contract: "supertonic",
        node: "tts",
        checked: VOICES,
    },
    Published {
        family: "Supertonic",
        source: "react-native-executorch 0.10",
        files: &[
            (
                at!("speech", "supertonic/four/duration_predictor_xnnpack_fp32.pte"),
                "duration_predictor_xnnpack_fp32.pte",
            ),
            (
                at!("speech", "supertonic/four/text_encoder_xnnpack_fp32.pte"),
                "text_encoder_xnnpack_fp32.pte",
            ),
            (
                at!("speech", "supertonic/four/vector_estimator_xnnpack_fp32.pte"),
                "vector_estimator_xnnpack_fp32.pte",
            ),
            (at!("speech", "supertonic/four/vocoder_xnnpack_fp32.pte"), "vocoder_xnnpack_fp32.pte"),
            (at!("speech", "supertonic/unicode_indexer.json"), "unicode_indexer.json"),
            (at!("speech", "supertonic/F1.json"), "F1.json"),
        ],
        options: &[],
        contract: "supertonic-rne@0.10",
        node: "tts",
        checked: VOICES,
    },
    Published {
        family: "Kokoro",
        source: "react-native-executorch 0.10",
        files: &[
            (
                at!("speech", "kokoro/one/duration_predictor_xnnpack_fp32.pte"),
                "duration_predictor_xnnpack_fp32.pte",
            ),
            (
                at!("speech", "kokoro/one/synthesizer_xnnpack_fp32.pte"),
                "synthesizer_xnnpack_fp32.pte",
            ),
            (at!("speech", "kokoro/af_one.bin"), "af_heart.bin"),
        ],
        options: &[],
        contract: "kokoro-rne@0.10",
        node: "tts",
        checked: VOICES,
    },
    Published {
        family: "Kokoro",
        source: "react-native-executorch 0.7 to 0.9",
        files: &[
            (at!("speech", "kokoro/several/duration_predictor.pte"), "duration_predictor.pte"),
            (at!("speech", "kokoro/several/synthesizer.pte"), "synthesizer.pte"),
            (at!("speech", "kokoro/af_one.bin"), "af_heart.bin"),
        ],
        options: &[],
        contract: "kokoro-rne@0.7",
        node: "tts",
        checked: VOICES,
    },
    Published {
        family: "Voxtral TTS",
        source: "ExecuTorch from 1.3",
        files: &[
            (at!("speech", "voxtral_tts/model.pte"), "model.pte"),
            (at!("speech", "voxtral_tts/codec_decoder.pte"), "codec_decoder.pte"),
            (at!("speech", "hearing/tekken.json"), "tekken.json"),
            (at!("speech", "voxtral_tts/calm.pt"), "neutral_female.pt"),
        ],
        options: &[],
        contract: "voxtral_tts",
        node: "tts",
        checked: "audio with the loop of the reference runner in PyTorch",
    },
    Published {
        family: "T5",
        source: "optimum-executorch Seq2Seq",
        files: &[(at!("speech", "seq2seq/model.pte"), "model.pte"), SENTENCE_PIECE],
        options: &[],
        contract: "seq2seq",
        node: "translate",
        checked: "token for token with PyTorch",
    },
    Published {
        family: "text embedding (MiniLM, CLIP)",
        source: "react-native-executorch",
        files: &[
            (at!("speech", "embed_text/pooled.pte"), "all-MiniLM-L6-v2_xnnpack.pte"),
            (at!("text", "wordpiece.json"), "tokenizer.json"),
        ],
        options: &[],
        contract: "text_embedding",
        node: "embed_text",
        checked: "vectors with transformers",
    },
    Published {
        family: "text classification (BERT)",
        source: "optimum form, with `id2label`",
        files: &[
            (at!("speech", "classify_text/dynamic.pte"), "model.pte"),
            (at!("speech", "classify_text/config.json"), "config.json"),
            (at!("text", "wordpiece.json"), "tokenizer.json"),
        ],
        options: &[],
        contract: "text_classes",
        node: "classify_text",
        checked: "probabilities with PyTorch",
    },
    Published {
        family: "vision-language model (LLaVA, Gemma 3)",
        source: "ExecuTorch MultimodalRunner",
        files: &[
            (at!("vision", "vlm/executorch/model.pte"), "model.pte"),
            (at!("vision", "vlm/tokenizer.json"), "tokenizer.json"),
        ],
        options: &[],
        contract: "vlm",
        node: "caption",
        checked: SEEN,
    },
    Published {
        family: "vision-language model (SmolVLM, Gemma 3)",
        source: "optimum-executorch",
        files: &[
            (at!("vision", "vlm/optimum/model.pte"), "model.pte"),
            (at!("vision", "vlm/tokenizer.json"), "tokenizer.json"),
            (at!("vision", "vlm/chat_template.jinja"), "chat_template.jinja"),
        ],
        options: &[],
        contract: "vlm",
        node: "caption",
        checked: SEEN,
    },
    Published {
        family: "vision-language model (LFM2.5-VL)",
        source: "react-native-executorch from 0.9",
        files: &[
            (at!("vision", "vlm/rne/model.pte"), "lfm2_5_vl_xnnpack_8da4w.pte"),
            (at!("vision", "vlm/tokenizer.json"), "tokenizer.json"),
            (at!("vision", "vlm/chat_template.jinja"), "chat_template.jinja"),
        ],
        options: &[],
        contract: "vlm",
        node: "caption",
        checked: SEEN,
    },
    Published {
        family: "YOLO detection",
        source: "Ultralytics",
        files: &[(at!("vision", "dense.pte"), "model.pte")],
        options: &[],
        contract: "ultralytics",
        node: "detect",
        checked: BOXES,
    },
    Published {
        family: "SSDLite, RF-DETR, YOLO26",
        source: "react-native-executorch",
        files: &[(at!("vision", "split.pte"), "ssdlite320_xnnpack.pte")],
        options: &[],
        contract: "boxes_scores_classes",
        node: "detect",
        checked: BOXES,
    },
    Published {
        family: "DETR, RT-DETR, D-FINE",
        source: "optimum-executorch",
        files: &[(at!("vision", "queries.pte"), "model.pte")],
        options: &[],
        contract: "detr",
        node: "detect",
        checked: BOXES,
    },
    Published {
        family: "RTMPose",
        source: "executorch-models collection",
        files: &[(at!("vision", "pose_simcc.pte"), "rtmpose.pte")],
        options: &[],
        contract: "simcc",
        node: "body_pose",
        checked: "keypoints with the post-processing of the source",
    },
    Published {
        family: "DeepLab, LRASPP, FCN",
        source: "react-native-executorch, ExecuTorch",
        files: &[(at!("vision", "mask_classes.pte"), "deeplab_v3_xnnpack.pte")],
        options: &[],
        contract: "logits",
        node: "segment",
        checked: BOXES,
    },
    Published {
        family: "YOLO segmentation",
        source: "Ultralytics",
        files: &[(at!("vision", "mask_dense.pte"), "model.pte")],
        options: &[],
        contract: "ultralytics",
        node: "segment",
        checked: BOXES,
    },
    Published {
        family: "EfficientSAM",
        source: "ExecuTorch",
        files: &[(at!("vision", "mask_prompts.pte"), "efficient_sam.pte")],
        options: &[],
        contract: "efficientsam",
        node: "segment",
        checked: BOXES,
    },
    Published {
        family: "MobileNet, ResNet, ViT, EfficientNet",
        source: "ExecuTorch, optimum-executorch, react-native-executorch",
        files: &[(at!("vision", "classes.pte"), "mv2.pte")],
        options: &["--task", "classification"],
        contract: "classes",
        node: "classify",
        checked: "classes with PyTorch",
    },
    Published {
        family: "OCR, detector (CRAFT)",
        source: "react-native-executorch up to 0.9",
        files: &[(at!("vision", "rne_ocr/detector.pte"), "craft_xnnpack_int8.pte")],
        options: &[],
        contract: "craft-rne@0.9",
        node: "ocr",
        checked: "lines and boxes with the post-processing of the source in Python",
    },
    Published {
        family: "OCR, recognizer (CRNN)",
        source: "react-native-executorch up to 0.9",
        files: &[
            (at!("vision", "rne_ocr/recognizer.pte"), "crnn_english_xnnpack_fp32.pte"),
            (at!("vision", "rne_ocr/charset.txt"), "charset.txt"),
        ],
        options: &[],
        contract: "crnn-rne@0.9",
        node: "ocr",
        checked: "text of drawn lines",
    },
    Published {
        family: "Depth Anything",
        source: "executorch-models collection",
        files: &[(at!("vision", "depth.pte"), "depth_anything_v2.pte")],
        options: &["--task", "depth", "--contract", "inverse_depth"],
        contract: "inverse_depth",
        node: "depth",
        checked: "depth with PyTorch",
    },
];

/// Runs `afferent package` on a folder of a source; returns what it prints.
fn package(folder: &Path, published: &Published) -> (ModelPackage, String) {
    let source = folder.join("source");
    fs::create_dir_all(&source).unwrap();
    for (file, name) in published.files {
        fs::copy(format!("{ROOT}/{file}"), source.join(name)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    command.current_dir(folder).args(["package", "source", "-o", "out"]).args(published.options);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = String::from_utf8([stdout, stderr].concat()).unwrap();
    assert!(status.success(), "{} of {}: {text}", published.family, published.source);
    (ModelPackage::open(folder.join("out")).unwrap(), text)
}

#[test]
fn folders_of_public_sources_get_their_contract() {
    assert!(PUBLISHED.len() >= 25, "{}", PUBLISHED.len());
    for published in PUBLISHED {
        let folder = tempfile::tempdir().unwrap();
        let (package, text) = package(folder.path(), published);
        let Published { family, source, contract, node, .. } = published;
        assert_eq!(package.manifest.contract, *contract, "{family} of {source}: {text}");
        assert!(text.contains(&format!("for the node {node}")), "{family} of {source}: {text}");
        package.verify().unwrap();
    }
}

/// The page with the table of all models.
fn page() -> String {
    let mut text = String::from(
        "# Models of public sources\n\nPrograms that these sources publish or export run as they are: \
         name the program, or its folder, in the graph. `afferent package` writes a package with a \
         `model.yaml` for it, and `afferent model info` names the contract of a program.\n\nEach row was \
         checked with a small program of the same contract, whose results were compared as the last \
         column says. No published weights were run.\n\n| model | source | contract | node | checked |\n\
         |---|---|---|---|---|\n",
    );
    for Published { family, source, contract, node, checked, .. } in PUBLISHED {
        writeln!(text, "| {family} | {source} | `{contract}` | `{node}` | {checked} |").unwrap();
    }
    text + "\nPrograms for the hardware of vendors (Core ML, MLX, QNN, CUDA) have the same names, but \
            do not run here: take the XNNPACK or portable ones.\n"
}

#[test]
fn the_page_lists_all_models() {
    let path = format!("{ROOT}/docs/compatibility.md");
    if std::env::var_os("AFFERENT_WRITE_DOCS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page(), "{path} is not up to date: see the head of this file");
}
