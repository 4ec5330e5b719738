//! Generates text with a language model.
//!
//! ```text
//! cargo run --release --example generate_text -- \
//!     runtime/text/tests/data/robot.pte runtime/text/tests/data/robot.json $'Q: go on from march\nA:'
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::io::Write;

use afferent::{
    App,
    runtime::Model,
    text::{GenerationOptions, Generator, Tokenizer},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, tokenizer, prompt] = args.as_slice() else {
        return Err("usage: generate_text MODEL.pte TOKENIZER PROMPT".into());
    };
    let tokenizer = Tokenizer::open(tokenizer)?;
    let mut generator = Generator::new(Model::open(model, App::new().models().clone())?)?;
    let prompt = generator.encode(&tokenizer, prompt)?;
    for token in generator.generate(&tokenizer, &prompt, &GenerationOptions::default())? {
        print!("{}", token?.text);
        std::io::stdout().flush()?;
    }
    println!();
    Ok(())
}
