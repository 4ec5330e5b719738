//! `afferent model generate`: streams the answer of a language model.

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

use afferent_runtime::ModelOptions;
use afferent_simd::pool;
use afferent_text::{FinishReason, GenerationOptions, Generator, Sampling, Tokenizer};
use anyhow::Context;
use clap::Args;

use super::{
    CacheArgs, ProgramFile,
    limits::{Limits, threads},
};
use crate::App;

/// Streams the answer of a language model, then prints the rates of prefill and decode in tokens
/// per second.
///
/// The program is an ExecuTorch Llama export, or has the same inputs, with or without a KV cache.
/// The begin token is added to the prompt, but no chat template: the prompt has to contain it.
/// Ctrl-C ends the answer and skips the remaining prompts; pressed again, or while the model loads,
/// it ends the command. A closed output pipe ends it too.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model generate llama.pte --tokenizer tokenizer.model --prompt 'Once upon a time'
  afferent model generate llama.pte --tokenizer tokenizer.json --prompt 'A haiku:' \\
      --temperature 0.8 --top-p 0.9 --seed 7 --max-new 60 --stop $'\\n\\n'
  afferent model generate llama.pte --tokenizer tokenizer.json --prompt 'Hi' --json | jq .decode_tokens_per_s
  jq .prompt questions.json | afferent model generate llama.pte --tokenizer tokenizer.json --prompts")]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Tokenizer: tokenizer.json, or a .model file of SentencePiece or tiktoken
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,
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
    #[arg(long, default_value_t = 0.0)]
    temperature: f32,
    /// Sample from the N most likely tokens; 0 means all
    #[arg(long, default_value_t = 0, value_name = "N")]
    top_k: usize,
    /// Sample from the most likely tokens whose probabilities add up to this value
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Drop tokens whose probability is less than this fraction of the highest one
    #[arg(long, default_value_t = 0.0)]
    min_p: f32,
    /// Penalty for the last 64 tokens; 1 means none
    #[arg(long, default_value_t = 1.0)]
    repetition_penalty: f32,
    /// Seed; the same seed gives the same text
    #[arg(long, default_value_t = 0)]
    seed: u64,
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
    tokenizer: Tokenizer,
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
        let SamplingArgs { temperature, top_k, top_p, min_p, repetition_penalty, seed } =
            args.sampling;
        let default = Sampling { repetition_penalty, seed, ..Sampling::default() };
        let options = GenerationOptions {
            max_new_tokens: args.max_new,
            sampling: Sampling { temperature, top_k, top_p, min_p, ..default },
            stop: args.stop.clone(),
            ignore_eos: args.ignore_end,
            canceled: Some(canceled),
            ..GenerationOptions::default()
        };
        let start = Instant::now();
        let tokenizer = Tokenizer::open(&args.tokenizer)?;
        let workers = pool::workers(args.threads);
        let model_options = args.limits.model_options(app.models().clone());
        let model_options = ModelOptions { workers, ..model_options };
        let model = args.cache.load(args.program.open()?, "forward", model_options)?;
        let generator = Generator::new(model)?;
        let load_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(Self { tokenizer, generator, options, load_ms })
    }

    /// Answers `prompt` without earlier context. With `stream`, prints the text token by token.
    fn answer(&mut self, prompt: &str, stream: bool) -> anyhow::Result<Answer> {
        let Self { tokenizer, generator, options, load_ms } = self;
        generator.rewind(0)?;
        let prompt = generator.encode(tokenizer, prompt)?;
        let start = Instant::now();
        let mut answer = generator.generate(tokenizer, &prompt, options)?;
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
