//! State files: a context that is saved and read again continues as the one in memory.

use std::path::{Path, PathBuf};

use afferent_runtime::{Model, ModelFile, ModelOptions, StateFileError};
use afferent_text::{Cache, ContractOptions, Generator, TextError};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn generator(name: &str) -> Generator {
    let options = ModelOptions::new(afferent_kernels::KERNELS);
    let file = ModelFile::open(data(name), &[]).expect("a program");
    let mut contract = ContractOptions::default();
    if name == "cache_ring.pte" {
        contract.cache = Some(Cache::Ring { window: 8, slots: 8 });
    }
    Generator::with_options(Model::new(file, options), &contract).expect("a language model")
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("afferent-state-{name}-{}", std::process::id()))
}

#[test]
fn a_state_continues_in_another_process() {
    let programs = [
        "contract_aten.pte",
        "contract_custom.pte",
        "contract_f16.pte",
        "contract_no_cache.pte",
        "cache_hybrid.pte",
        "cache_recurrent.pte",
        "cache_ring.pte",
        "methods_pair.pte",
    ];
    for name in programs {
        let path = temporary(name);
        let mut first = generator(name);
        first.push(&[1, 5, 9, 3, 7]).expect("it fits");
        first.logits(None).expect("logits");
        first.save_state(&path).expect("a file");
        let mut second = generator(name);
        second.push(&[4, 4]).expect("it fits");
        second.logits(None).expect("logits");
        assert!(second.load_state(&path).expect("a state"), "{name}");
        assert_eq!(second.tokens(), first.tokens(), "{name}");
        for token in [8, 2, 6] {
            let logits = [&mut first, &mut second].map(|generator| {
                generator.push(&[token]).expect("it fits");
                generator.logits(None).expect("logits").to_vec()
            });
            assert_eq!(logits[0], logits[1], "{name}");
        }
        std::fs::remove_file(&path).expect("the file");
    }
}

#[test]
fn other_files_leave_the_context_unchanged() {
    let path = temporary("other");
    let mut generator = generator("contract_aten.pte");
    assert_eq!(generator.load_state(&path), Ok(false));
    generator.push(&[1, 5]).expect("it fits");
    generator.logits(None).expect("logits");
    generator.push(&[9]).expect("it fits");
    let expected = generator.logits(None).expect("logits").to_vec();
    let mut check = |bytes: &[u8], expected_reason: &str| {
        std::fs::write(&path, bytes).expect("a file");
        match generator.load_state(&path) {
            Err(TextError::State(StateFileError::Invalid { reason, .. })) => {
                assert_eq!(reason, expected_reason);
            }
            other => panic!("{other:?}"),
        }
        generator.rewind(2).expect("within the context");
        generator.push(&[9]).expect("it fits");
        assert_eq!(generator.logits(None).expect("logits"), expected);
    };
    check(b"", "it is damaged");
    check(&[7; 100], "it is not a state file of this version");
    let mut other = self::generator("contract_custom.pte");
    other.push(&[1]).expect("it fits");
    other.logits(None).expect("logits");
    other.save_state(&path).expect("a file");
    let bytes = std::fs::read(&path).expect("a file");
    check(&bytes, "it belongs to another program");
    for at in (0..bytes.len()).step_by(bytes.len() / 60) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        let is_magic = at < 16;
        check(
            &damaged,
            if is_magic { "it is not a state file of this version" } else { "it is damaged" },
        );
        check(&bytes[..at], "it is damaged");
    }
    std::fs::remove_file(&path).expect("the file");
}

#[test]
fn tokens_of_no_context_are_refused() {
    let path = temporary("tokens");
    let file = ModelFile::open(data("contract_aten.pte"), &[]).expect("a program");
    let mut model = Model::new(file, ModelOptions::new(afferent_kernels::KERNELS));
    model.load_method("forward").expect("the method");
    let mut generator = generator("contract_aten.pte");
    let most = generator.contract().max_context_len;
    let mut check = |tokens: &[u32], expected: TextError| {
        let label = [[0; 8].to_vec(), tokens.iter().flat_map(|t| t.to_le_bytes()).collect()];
        model.save_state(&path, &label.concat()).expect("a file");
        generator.push(&[3]).expect("it fits");
        assert_eq!(generator.load_state(&path), Err(expected));
        assert!(generator.tokens().is_empty());
    };
    check(&[1, 48], TextError::UnknownToken { token: 48, vocab_size: 48 });
    let tokens = vec![1; most + 1];
    check(&tokens, TextError::ContextFull { needed: most + 1, limit: most });
    std::fs::remove_file(&path).expect("the file");
}
