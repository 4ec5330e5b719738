//! `afferent model generate`: an answer of a language model, as it comes.

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

use crate::App;

use super::{
    CacheArgs, ProgramFile,
    limits::{Limits, threads},
};

/// Prints what a language model answers, as it comes, and then how many tokens it took and gave in
/// a second.
///
/// The program is one of ExecuTorch's Llama exports or has inputs like them, with or without a
/// cache. Its begin token is put before the prompt; nothing else is, so that a chat template has to
/// be written out. Ctrl-C ends the answer, and leaves out those to the prompts behind it; pressed
/// again, or while the model loads, it ends the program. So does a pipe that nobody reads any more.
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
    /// Text that the model goes on from
    #[arg(long, required_unless_present = "prompts")]
    prompt: Option<String>,
    /// Answer to each prompt that comes in, one JSON string a line, with one JSON object a line
    #[arg(long, conflicts_with_all = ["prompt", "json"])]
    prompts: bool,
    /// Most tokens of the answer
    #[arg(long, default_value_t = 128, value_name = "N")]
    max_new: usize,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Text that ends the answer and is not printed; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after tokens that end an answer
    #[arg(long)]
    ignore_end: bool,
    /// Threads that kernels may use
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

/// How tokens are chosen.
#[derive(Args)]
struct SamplingArgs {
    /// 0 takes the likeliest token; higher is more random
    #[arg(long, default_value_t = 0.0)]
    temperature: f32,
    /// Choose among so many of the likeliest tokens; 0 is all
    #[arg(long, default_value_t = 0, value_name = "N")]
    top_k: usize,
    /// Choose among the likeliest tokens that together have this probability
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Drop tokens less likely than this share of the likeliest
    #[arg(long, default_value_t = 0.0)]
    min_p: f32,
    /// Makes the last 64 tokens less likely to come again; 1 does not
    #[arg(long, default_value_t = 1.0)]
    repetition_penalty: f32,
    /// The same seed gives the same text
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// What an answer took.
struct Measured {
    load_ms: f64,
    prompt_tokens: usize,
    prefill_s: f64,
    /// Tokens of the answer.
    tokens: Vec<u32>,
    /// From the first of them to the last.
    decode_s: f64,
    text: String,
    finish: Option<FinishReason>,
}

pub(crate) fn generate(app: &App, args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    let (canceled, answers) = (args.limits.start(), Arc::new(AtomicBool::new(false)));
    let (flag, busy) = (Arc::clone(&canceled), Arc::clone(&answers));
    let pressed = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if !busy.load(Ordering::Relaxed) || pressed.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        flag.store(true, Ordering::Relaxed);
    })?;
    let SamplingArgs { temperature, top_k, top_p, min_p, repetition_penalty, seed } = args.sampling;
    let usual = Sampling { repetition_penalty, seed, ..Sampling::default() };
    let answer_options = GenerationOptions {
        max_new_tokens: args.max_new,
        sampling: Sampling { temperature, top_k, top_p, min_p, ..usual },
        stop: args.stop.clone(),
        ignore_eos: args.ignore_end,
        canceled: Some(canceled),
        ..GenerationOptions::default()
    };
    let start = Instant::now();
    let tokenizer = Tokenizer::open(&args.tokenizer)?;
    let workers = pool::workers(args.threads);
    let of_model = ModelOptions { workers, ..args.limits.of_model(app.models().clone()) };
    let model = args.cache.load(args.program.open()?, "forward", of_model)?;
    let generator = Generator::new(model)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut asked = CallRequest { tokenizer, generator, options: answer_options, load_ms };
    if let Some(prompt) = &args.prompt {
        answers.store(true, Ordering::Relaxed);
        let measured = asked.answer(prompt, !args.json)?;
        crate::print(&if args.json { format!("{}\n", measured.json()) } else { measured.lines() })?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in std::io::stdin().lock().lines() {
        answers.store(true, Ordering::Relaxed);
        let prompt: String = serde_json::from_str(&line?).context("a line is no JSON string")?;
        let measured = asked.answer(&prompt, false)?;
        let is_read = crate::print_to_reader(&format!("{}\n", measured.json()))?;
        if measured.finish == Some(FinishReason::Canceled) {
            anyhow::bail!("it was stopped; the prompts that follow are not answered");
        }
        if !is_read {
            break;
        }
        answers.store(false, Ordering::Relaxed);
    }
    Ok(ExitCode::SUCCESS)
}

/// What shells expect of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// A model that is asked, once or again and again.
struct CallRequest {
    tokenizer: Tokenizer,
    generator: Generator,
    options: GenerationOptions,
    load_ms: f64,
}

impl CallRequest {
    /// The answer to `prompt` alone, printed as it comes if it is `shown`.
    fn answer(&mut self, prompt: &str, shown: bool) -> anyhow::Result<Measured> {
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
            if shown && !piece.text.is_empty() && !crate::print_to_reader(&piece.text)? {
                break;
            }
            last = Instant::now();
            first.get_or_insert(last);
            text.push_str(&piece.text);
            tokens.push(piece.token);
        }
        let decode_s = first.map_or(0.0, |first| (last - first).as_secs_f64());
        let (prompt_tokens, finish, load_ms) = (prompt.len(), answer.finish_reason(), *load_ms);
        Ok(Measured { load_ms, prompt_tokens, prefill_s, tokens, decode_s, text, finish })
    }
}

impl Measured {
    fn prefill_rate(&self) -> f64 {
        self.prompt_tokens as f64 / self.prefill_s
    }

    /// The logits of the first token come from the prompt; absent if there is no other token.
    fn decode_rate(&self) -> Option<f64> {
        let steps = self.tokens.len().checked_sub(1).filter(|&steps| steps > 0)?;
        Some(steps as f64 / self.decode_s)
    }

    fn finish(&self) -> &'static str {
        self.finish.map_or("unfinished", FinishReason::name)
    }

    /// What stands below the text.
    fn lines(&self) -> String {
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
