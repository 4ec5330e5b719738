"""Trains a small model on the toy language, and exports it with the Llama export of ExecuTorch.

    python runtime/text/tests/make_robot.py

Needs torch, executorch and tokenizers. Writes to `tests/data`: `robot.json`, the tokenizer;
`robot.pte`, the program, with `llama::custom_sdpa` and the KV cache in mutable buffers; and
`robot_cases.json`, conversations with the tokens of greedy decoding in PyTorch without KV cache.
"""

import json
import pathlib
import random
import tempfile

import tokenizers
import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from tokenizers import decoders, models, pre_tokenizers, trainers
import llama_export
import toy_language

DATA = pathlib.Path(__file__).parent / "data"
VOCABULARY, CONTEXT = 384, 128
BEGIN, END = 1, 2
SHAPE = dict(dim=32, n_layers=2, n_heads=2, n_kv_heads=1, hidden_dim=96, vocab_size=VOCABULARY, norm_eps=1e-5)
STEPS, BATCH = 1500, 48
CONVERSATIONS = [
    ["what comes after monday?", "what next?", "what next?"],
    ["go on from march", "what next?"],
    ["say hello in german", "say hello in japanese", "say hello in wave"],
    ["say hello in greek", "what comes after twelve?", "what next?"],
]


def tokenizer():
    """Byte-level BPE, as in Llama 3 and GPT-2."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(toy_language.lines(), trainer)
    return made


def conversation(encode, rng):
    """Tokens of a conversation, and a loss mask that selects the answers."""
    tokens, learn = [BEGIN], [False]
    for question, answer in toy_language.turns(rng, 6):
        asked, said = encode(toy_language.prompt(question)), encode(toy_language.reply(answer)) + [END]
        tokens += asked + said
        learn += [False] * len(asked) + [True] * len(said)
    return tokens[: CONTEXT + 1], learn[: CONTEXT + 1]


def trained(encode):
    torch.manual_seed(0)
    rng = random.Random(0)
    model = construct_transformer(ModelArgs(**SHAPE, max_seq_len=CONTEXT, max_context_len=CONTEXT, generate_full_logits=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, STEPS)
    for step in range(STEPS):
        batch, mask = torch.zeros(BATCH, CONTEXT + 1, dtype=torch.long), torch.zeros(BATCH, CONTEXT + 1, dtype=torch.bool)
        for row in range(BATCH):
            tokens, learn = conversation(encode, rng)
            batch[row, : len(tokens)], mask[row, : len(learn)] = torch.tensor(tokens), torch.tensor(learn)
        logits = model(batch[:, :-1])
        picked = mask[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits[picked], batch[:, 1:][picked])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    return model.eval()


def main():
    made = tokenizer()
    made.save(str(DATA / "robot.json"), pretty=False)
    encode = lambda text: made.encode(text, add_special_tokens=False).ids
    model = trained(encode)
    cases = []
    for questions in CONVERSATIONS:
        tokens, turns = [BEGIN], []
        for question in questions:
            asked = encode(toy_language.prompt(question))
            said = llama_export.greedy(model, tokens + asked, until={END}, limit=40)
            tokens += asked + said
            turns.append({"prompt": toy_language.prompt(question), "tokens": said, "text": made.decode(said)})
            print(question, "->", turns[-1]["text"])
        cases.append(turns)
    (DATA / "robot_cases.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        llama_export.save(model, SHAPE, pathlib.Path(folder))
        llama_export.export(pathlib.Path(folder), DATA / "robot.pte", context=CONTEXT, begin=BEGIN, end=[END], custom=True)


if __name__ == "__main__":
    main()
