//! `afferent model generate`: streams the answer of a language model.

mod prompts;

use std::{
    io::BufRead,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use afferent_nodes_speech::cache_of;
use afferent_package::ModelPackage;
use afferent_runtime::ModelOptions;
use afferent_simd::pool;
use afferent_text::{
    Cache, Companions, Contract, ContractOptions, FinishReason, GenerationOptions, Generator,
    Sampling,
};
use anyhow::{Context, ensure};
use clap::Args;

use super::{
    CacheArgs, ProgramFile,
    limits::{Limits, threads},
};
use prompts::Prompts;

use crate::App;

/// Streams the answer of a language model, then prints the rates of prefill and decode in tokens
/// per second.
///
/// The program is an ExecuTorch Llama export, or has the same inputs, with or without a KV cache.
/// A package brings its tokenizer, its chat template, its system prompt, `method` and `cache`; a
/// program, the files beside it. The begin token is added to the prompt. With `--chat`, the prompt is
/// the message of a user in the chat template: that of the package, or chat_template.jinja or
/// tokenizer_config.json beside the tokenizer. Without it, the prompt has to contain the template.
/// Sampling that is not set is that of generation_config.json beside the tokenizer, or greedy.
///
/// Ctrl-C ends the answer and skips the remaining prompts; pressed again, or while the model loads,
/// it ends the command. A closed output pipe ends it too.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model generate llama.pte --tokenizer tokenizer.model --prompt 'Once upon a time'
  afferent model generate models/qwen3 --chat --prompt 'What is the capital of France?'
  afferent model generate llama.pte --tokenizer tokenizer.json --prompt 'A haiku:' \\
      --temperature 0.8 --top-p 0.9 --seed 7 --max-new 60 --stop $'\\n\\n'
  afferent model generate llama.pte --tokenizer tokenizer.json --prompt 'Hi' --json | jq .decode_tokens_per_s
  jq .prompt questions.json | afferent model generate llama.pte --tokenizer tokenizer.json --prompts")]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Tokenizer: tokenizer.json, tekken.json, vocab.txt, a .model file of SentencePiece or tiktoken, or
    /// a .bin file of llama2.c; by default that of the package, or the one in the folder of the program
    /// or above it
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Put the prompt into the chat template
    #[arg(long)]
    chat: bool,
    /// System prompt; by default that of the package
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Method that computes logits; by default forward, prefill and decode, or the only one that fits
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// State of the model: positional, recurrent, ring:WINDOW or ring:WINDOW:SLOTS; by default what
    /// the program says
    #[arg(long, value_name = "KIND", value_parser = cache_kind)]
    cache_kind: Option<Cache>,
    /// Text that the model continues
    #[arg(long, required_unless_present = "prompts")]
    prompt: Option<String>,
    /// Read prompts from standard input, one JSON string per line; print one JSON object per answer
    #[arg(long, conflicts_with_all = ["prompt", "json"])]
    prompts: bool,
    /// Maximum number of tokens of the answer
    #[arg(long, default_value_t = 128, value_name = "N")]
    max_new: usize,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Stop sequence: ends the answer and is not printed; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Continue after end-of-sequence tokens
    #[arg(long)]
    ignore_end: bool,
    /// Number of threads of kernels
    #[arg(long, default_value_t = 1, value_parser = threads())]
    threads: usize,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    limits: Limits,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Sampling of tokens.
#[derive(Args)]
struct SamplingArgs {
    /// Temperature; 0 always takes the most likely token
    #[arg(long)]
    temperature: Option<f32>,
    /// Sample from the N most likely tokens; 0 means all
    #[arg(long, value_name = "N")]
    top_k: Option<usize>,
    /// Sample from the most likely tokens whose probabilities add up to this value
    #[arg(long)]
    top_p: Option<f32>,
    /// Drop tokens whose probability is less than this fraction of the highest one
    #[arg(long)]
    min_p: Option<f32>,
    /// Penalty for the last 64 tokens; 1 means none
    #[arg(long)]
    repetition_penalty: Option<f32>,
    /// Seed; the same seed gives the same text
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl SamplingArgs {
    /// The settings; those that are absent are of `defaults`.
    fn with_defaults(&self, defaults: Sampling) -> Sampling {
        Sampling {
            temperature: self.temperature.unwrap_or(defaults.temperature),
            top_k: self.top_k.unwrap_or(defaults.top_k),
            top_p: self.top_p.unwrap_or(defaults.top_p),
            min_p: self.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(defaults.repetition_penalty),
            seed: self.seed,
            ..defaults
        }
    }
}

/// Parses `--cache-kind`.
fn cache_kind(text: &str) -> Result<Cache, String> {
    let ring = || {
        let (window, slots) =
            text.strip_prefix("ring:").map(|rest| rest.split_once(':').unwrap_or((rest, rest)))?;
        let (window, slots) = (window.parse().ok()?, slots.parse().ok()?);
        (0 < window && window <= slots).then_some(Cache::Ring { window, slots })
    };
    match text {
        "positional" => Ok(Cache::Positional),
        "recurrent" => Ok(Cache::Recurrent),
        _ => ring().ok_or_else(|| {
            "expected positional, recurrent, ring:WINDOW or ring:WINDOW:SLOTS with at least WINDOW \
             slots"
                .to_owned()
        }),
    }
}

/// Exit status of a command that Ctrl-C ended, as shells expect it.
const INTERRUPTED: i32 = 130;

pub(crate) fn generate(app: &App, args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    let (canceled, is_answering) = (args.limits.start_timer(), Arc::new(AtomicBool::new(false)));
    handle_ctrl_c(Arc::clone(&canceled), Arc::clone(&is_answering))?;
    let mut session = Session::load(app, args, canceled)?;
    if let Some(prompt) = &args.prompt {
        is_answering.store(true, Ordering::Relaxed);
        let answer = session.answer(prompt, !args.json)?;
        let text = if args.json { format!("{}\n", answer.json()) } else { answer.summary() };
        crate::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in std::io::stdin().lock().lines() {
        is_answering.store(true, Ordering::Relaxed);
        let prompt: String =
            serde_json::from_str(&line?).context("each line must be a JSON string")?;
        let answer = session.answer(&prompt, false)?;
        let is_read = crate::print_to_reader(&format!("{}\n", answer.json()))?;
        if answer.finish == Some(FinishReason::Canceled) {
            anyhow::bail!("stopped; the remaining prompts are skipped");
        }
        if !is_read {
            break;
        }
        is_answering.store(false, Ordering::Relaxed);
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes Ctrl-C end the answer. Without an answer, or the second time, it ends the process.
fn handle_ctrl_c(
    canceled: Arc<AtomicBool>,
    is_answering: Arc<AtomicBool>,
) -> Result<(), ctrlc::Error> {
    let was_pressed = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if !is_answering.load(Ordering::Relaxed) || was_pressed.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        canceled.store(true, Ordering::Relaxed);
    })
}

/// Loaded model that answers prompts.
struct Session {
    prompts: Prompts,
    generator: Generator,
    options: GenerationOptions,
    load_ms: f64,
}

/// Answer to a prompt, with measured times.
struct Answer {
    load_ms: f64,
    prompt_tokens: usize,
    prefill_s: f64,
    /// Tokens of the answer.
    tokens: Vec<u32>,
    /// Seconds from the first token of the answer to the last.
    decode_s: f64,
    text: String,
    finish: Option<FinishReason>,
}

impl Session {
    fn load(app: &App, args: &GenerateArgs, canceled: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let start = Instant::now();
        let package = ModelPackage::open(&args.program.file)?;
        let manifest = &package.manifest;
        ensure!(
            package.is_bare() || manifest.task == "chat",
            "{}: `task` is {}; generate needs a language model, with the task chat",
            args.program.file.display(),
            manifest.task
        );
        let tokenizer = manifest.tokenizer.as_ref().map(|file| package.folder().join(file));
        let tokenizer = args.tokenizer.clone().or(tokenizer);
        let companions = Companions::find(package.folder(), tokenizer.as_deref())?;
        let chat = manifest.chat.clone().unwrap_or_default();
        let prompts = match args.chat {
            true => Prompts::chat(&package, companions.clone(), &chat, args.system.as_deref())?,
            false => Prompts::text(&companions)?,
        };
        let mut options = GenerationOptions {
            max_new_tokens: args.max_new,
            sampling: args.sampling.with_defaults(companions.sampling.unwrap_or_default()),
            stop: args.stop.clone(),
            extra_eos: companions.eos_tokens(prompts.tokenizer()),
            ignore_eos: args.ignore_end,
            canceled: Some(canceled),
        };
        options.extra_eos.extend(prompts.end());
        if args.chat {
            options.end_at(&chat.end, prompts.tokenizer());
        }
        let workers = pool::workers(args.threads);
        let model_options = args.limits.model_options(app.models().clone());
        let model_options = ModelOptions { workers, ..model_options };
        let contract = ContractOptions {
            method: args.method.clone().or(manifest.method.clone()),
            cache: args.cache_kind.or(manifest.cache.map(cache_of)),
        };
        let file = args.program.open(app)?;
        let method = Contract::with_options(&file, &contract)?.method;
        let model = args.cache.load(file, &method, model_options)?;
        let generator = Generator::with_options(model, &contract)?;
        let load_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(Self { prompts, generator, options, load_ms })
    }

    /// Answers `prompt` without earlier context. With `stream`, prints the text token by token.
    fn answer(&mut self, prompt: &str, stream: bool) -> anyhow::Result<Answer> {
        let Self { prompts, generator, options, load_ms } = self;
        generator.rewind(0)?;
        let prompt = prompts.encode(generator, prompt)?;
        let start = Instant::now();
        let mut answer = generator.generate(prompts.tokenizer(), &prompt, options)?;
        let prefill_s = start.elapsed().as_secs_f64();
        let (mut text, mut tokens) = (String::new(), Vec::new());
        let (mut first, mut last) = (None, Instant::now());
        for piece in &mut answer {
            let piece = piece?;
            if stream && !piece.text.is_empty() && !crate::print_to_reader(&piece.text)? {
                break;
            }
            last = Instant::now();
            first.get_or_insert(last);
            text.push_str(&piece.text);
            tokens.push(piece.token);
        }
        let decode_s = first.map_or(0.0, |first| (last - first).as_secs_f64());
        let (prompt_tokens, finish, load_ms) = (prompt.len(), answer.finish_reason(), *load_ms);
        Ok(Answer { load_ms, prompt_tokens, prefill_s, tokens, decode_s, text, finish })
    }
}

impl Answer {
    fn prefill_rate(&self) -> f64 {
        self.prompt_tokens as f64 / self.prefill_s
    }

    /// Decode steps per second; `None` if the answer has only the first token, whose logits come
    /// from prefill.
    fn decode_rate(&self) -> Option<f64> {
        let steps = self.tokens.len().checked_sub(1).filter(|&steps| steps > 0)?;
        Some(steps as f64 / self.decode_s)
    }

    fn finish(&self) -> &'static str {
        self.finish.map_or("unfinished", FinishReason::name)
    }

    /// Line that is printed after the text.
    fn summary(&self) -> String {
        let decode = self.decode_rate().map_or("-".to_owned(), |rate| format!("{rate:.1}"));
        format!(
            "\n\nprefill {} tokens, {:.1} tokens/s; decode {} tokens, {decode} tokens/s; {}\n",
            self.prompt_tokens,
            self.prefill_rate(),
            self.tokens.len(),
            self.finish(),
        )
    }

    fn json(&self) -> serde_json::Value {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        serde_json::json!({
            "text": self.text,
            "tokens": self.tokens,
            "finish": self.finish(),
            "load_ms": round(self.load_ms),
            "prompt_tokens": self.prompt_tokens,
            "prefill_ms": round(self.prefill_s * 1e3),
            "prefill_tokens_per_s": round(self.prefill_rate()),
            "new_tokens": self.tokens.len(),
            "decode_ms": round(self.decode_s * 1e3),
            "decode_tokens_per_s": self.decode_rate().map(round),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_caches_are_parsed() {
        let check = |text: &str, expected: Cache| assert_eq!(cache_kind(text), Ok(expected));
        check("positional", Cache::Positional);
        check("recurrent", Cache::Recurrent);
        check("ring:8", Cache::Ring { window: 8, slots: 8 });
        check("ring:8:16", Cache::Ring { window: 8, slots: 16 });
        for wrong in ["", "ring", "ring:", "ring:0", "ring:8:4", "ring:x", "paged"] {
            assert!(
                cache_kind(wrong).is_err_and(|reason| reason.contains("ring:WINDOW")),
                "{wrong}"
            );
        }
    }
}
