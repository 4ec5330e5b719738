"""Trains the tokenizer and the small Llama on dialogues made as it goes; a run that was interrupted continues."""
import argparse
import itertools
import pathlib
import random
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.nn import functional as F

import tokens
from dialogues import dialogue
from drill import Drill
from model import CONTEXT, LAYERS, WIDTH, Llama, grown, rounded, shape

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from checkpoint import resumed, save
from shipped import constants, fill

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "pipelines" / "models" / "llm"
WORK = pathlib.Path(__file__).resolve().parents[1] / "work" / "llm"
STEPS, BATCH_TOKENS, DRAWN = 4400, 4608, 192
RATE, WARM_UP, WEIGHT_DECAY = 3e-3, 150, 0.05
# A run from nothing starts with fewer layers, which learn as much in less time, and has all of them, with weights rounded
# as the export does, from this share on.
FIRST_LAYERS, GROWS = 4, 0.6
SAVE_EVERY, REPORT_EVERY = 50, 20


def turns_of(rng):
    """How many turns a dialogue has: most are short, some fill the context."""
    return rng.choice((rng.randint(1, 4), rng.randint(1, 4), rng.randint(3, 9), rng.randint(3, 9), rng.randint(6, 16)))


def batches(tokenizer, drill, seed, step):
    """Batches from a step on: dialogues of like length, with what is to be learnt as targets."""
    bare = tokens.after_space(tokenizer)
    while True:
        # Each draw of dialogues has its own seed, and gives as many batches as it has tokens for.
        rng = random.Random(f"{seed} {step}")
        drawn = [dialogue(rng, turns_of(rng), drill) for _ in range(DRAWN)]
        drawn = [(*tokens.encoded(rng, tokenizer, bare, system, turns), [turn.core for turn in turns])
                 for system, turns in drawn]
        drawn.sort(key=lambda made: len(made[0]))
        rows = [[]]
        for made in drawn:
            if rows[-1] and (len(rows[-1]) + 1) * min(len(made[0]), CONTEXT) > BATCH_TOKENS:
                rows.append([])
            rows[-1].append(made)
        rng.shuffle(rows)
        yield from map(batch, rows)
        step += 1


def batch(rows):
    """Inputs; of each the next token, and the turn in which it is said, from 0 for the whole batch, or -1 if it is not to
    be learnt; the cores of those turns."""
    length = min(CONTEXT, max(len(ids) for ids, _, _ in rows) - 1)
    inputs, targets = torch.zeros(2, len(rows), length, dtype=torch.long)
    turns, cores = torch.full((len(rows), length), -1), []
    for row, (ids, learnt, said) in enumerate(rows):
        ids, learnt = ids[:length + 1], learnt[1:length + 1]
        inputs[row, :len(ids) - 1], targets[row, :len(ids) - 1] = torch.tensor(ids[:-1]), torch.tensor(ids[1:])
        turns[row, :len(learnt)] = torch.tensor([-1 if turn is None else len(cores) + turn for turn in learnt])
        # A dialogue that is too long for the context loses its last turns.
        cores += said[:max((turn for turn in learnt if turn is not None), default=-1) + 1]
    return inputs, targets, turns, cores


def learn(weights, inputs, targets, turns, count):
    """The loss of each token of some rows that is to be learnt, and gradients of their sum divided by `count`."""
    picked = turns >= 0
    with torch.autocast("cpu", torch.bfloat16):
        logits = weights(inputs, picked)
    losses = F.cross_entropy(logits.float(), targets[picked], reduction="none")
    return losses.detach(), torch.autograd.grad(losses.sum() / count, list(weights.parameters()))


class Learner:
    """Divides the rows of a batch among processes that share the weights: its operations are too small to be divided, and
    compiled layers keep other threads of a process waiting."""

    def __init__(self, weights, processes):
        self.weights = weights.share_memory()
        self.others = []
        start = torch.multiprocessing.get_context("spawn")
        for _ in range(processes - 1):
            gradients = [torch.zeros_like(p).share_memory_() for p in weights.parameters()]
            ours, theirs = start.Pipe()
            start.Process(target=answer, args=(weights, gradients, theirs), daemon=True).start()
            self.others.append((ours, gradients))
        compile_layers(weights)

    def learn(self, model, inputs, targets, turns):
        """The loss of each token that is to be learnt, as `weights` say it, and gradients of their mean for `model`."""
        count = (turns >= 0).sum()
        first, *rest = zip(*(x.chunk(1 + len(self.others)) for x in (inputs, targets, turns)))
        asked = list(zip(self.others, rest))
        for (pipe, _), part in asked:
            pipe.send([x.numpy() for x in (*part, count)])
        losses, gradients = learn(self.weights, *first, count)
        all_losses, all_gradients = [losses], [gradients]
        for (pipe, gradients), _ in asked:
            try:
                all_losses.append(torch.from_numpy(pipe.recv()))
            except (EOFError, OSError):
                raise SystemExit("a process of the training has ended; start it again to go on from its last checkpoint")
            all_gradients.append(gradients)
        for p, parts in zip(model.parameters(), zip(*all_gradients)):
            p.grad = sum(parts[1:], parts[0])
        return torch.cat(all_losses)

    def close(self):
        for pipe, _ in self.others:
            pipe.send(None)


def answer(weights, gradients, pipe):
    """The losses of parts of batches; their gradients stand where both processes see them."""
    torch.set_num_threads(1)
    compile_layers(weights)
    while (part := pipe.recv()) is not None:
        losses, found = learn(weights, *map(torch.from_numpy, part[:3]), torch.tensor(part[3]))
        for kept, gradient in zip(gradients, found):
            kept.copy_(gradient)
        pipe.send(losses.numpy())


def compile_layers(model):
    """Takes half a minute, and saves a fifth of every step."""
    for layer in model.layers:
        layer.compile(dynamic=True)


@torch.no_grad()
def store(model, stored):
    """Gives `stored` the weights of the model as the export will store them; both learn as if nothing had been rounded."""
    for p, kept in zip(model.parameters(), stored.parameters()):
        kept.copy_(rounded(p) if p.dim() == 2 else p)


def optimisers(model):
    """Muon for the matrices of the layers, in halves that threads step at once, AdamW for the embedding and the norms."""
    inner = [p for name, p in model.named_parameters() if p.dim() == 2 and "tok_embeddings" not in name]
    outer = [p for name, p in model.named_parameters() if p.dim() != 2 or "tok_embeddings" in name]
    return [*(torch.optim.Muon(half, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
              for half in (inner[::2], inner[1::2])),
            torch.optim.AdamW(outer, weight_decay=0.0, betas=(0.9, 0.98))]


def learning_rate(step, steps, rate):
    return rate * min(1, (step + 1) / WARM_UP) * (1 - step / steps + 1e-3)


def shipped(vocabulary):
    """A model with the weights of the package, grown if that has fewer layers."""
    inside = ["attention_norm", "attention.wq", "attention.wk", "attention.wv", "attention.wo",
              "ffn_norm", "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"]
    values = list(constants(PACKAGE / "llm_portable.pte"))
    # A layer has four square matrices.
    model = Llama(shape(vocabulary, sum(weights.shape == (WIDTH, WIDTH) for weights in values) // 4))
    # The order in which the program uses them.
    order = ["tok_embeddings.weight", *(f"layers.{layer}.{part}.weight" for layer in range(len(model.layers)) for part in inside),
             "norm.weight"]
    shapes = {name: weights.shape for name, weights in model.named_parameters()}
    assert sorted(order) == sorted(shapes)
    model.load_state_dict(fill(order, shapes, values))
    return model if len(model.layers) == LAYERS else grown(model, shape(vocabulary))


def drilled(name):
    """The weights of phrasings that a run ended with."""
    path = WORK / f"{name}-checkpoint.pt"
    if not path.exists():
        raise SystemExit(f"no run is called {name}: {path} is not there")
    weights, wanted = torch.load(path, weights_only=True)["drill"], len(Drill().state())
    if len(weights) != wanted:
        raise SystemExit(f"{name} had {len(weights)} phrasings, there are {wanted} now: leave --drill out")
    return weights


def train(seed, steps, name, rate, go_on, drill, processes):
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(processes)
    torch.manual_seed(seed)
    WORK.mkdir(parents=True, exist_ok=True)
    command = f"llm/train.py{' --go-on' * go_on} --seed {seed} --steps {steps} --rate {rate}{f' --drill {drill}' if drill else ''}"
    words = WORK / f"{name}.json"
    if go_on and not words.exists():
        shutil.copyfile(PACKAGE / "tokenizer.json", words)
    tokenizer = tokens.load(words) if words.exists() else tokens.train(seed, words)
    checkpoint, grows = WORK / f"{name}-checkpoint.pt", 0 if go_on else int(steps * GROWS)
    saved = resumed(checkpoint, steps, seed=seed, go_on=go_on) or {"step": 0}
    step, vocabulary = saved["step"], tokenizer.get_vocab_size()
    drill = Drill(drilled(drill) if drill and not step else saved.get("drill"))
    if go_on and not step:
        model = shipped(vocabulary)
    else:
        model = Llama(shape(vocabulary, LAYERS if step > grows or go_on else FIRST_LAYERS))
    each = optimisers(model)
    stored = Llama(shape(vocabulary)) if go_on or step > grows else model
    if step:
        model.load_state_dict(saved["model"])
        for optimiser, state in zip(each, saved["optimisers"]):
            optimiser.load_state_dict(state)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {vocabulary} tokens", flush=True)
    learner = Learner(stored, processes)
    start, seen, total = time.time(), 0, []
    drawn = batches(tokenizer, drill, seed, step)
    for inputs, targets, turns, cores in itertools.islice(drawn, steps - step):
        if step == grows and not go_on:
            learner.close()
            model, stored = grown(model, shape(vocabulary)), Llama(shape(vocabulary))
            each, learner = optimisers(model), Learner(stored, processes)
        for group in itertools.chain(*(optimiser.param_groups for optimiser in each)):
            group["lr"] = learning_rate(step, steps, rate)
        if stored is not model:
            store(model, stored)
        losses = learner.learn(model, inputs, targets, turns)
        drill.update(cores, torch.zeros(len(cores)).index_add_(0, turns[turns >= 0], losses).tolist())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for _ in pool.map(lambda optimiser: optimiser.step(), each):
            pass
        step, seen = step + 1, seen + inputs.numel()
        total.append(losses.mean().item())
        if step % REPORT_EVERY == 0:
            took = time.time() - start
            print(f"step {step} of {steps}: loss {sum(total) / len(total):.4f}, {seen / took:.0f} tokens/s, {took:.0f} s",
                  flush=True)
            total = []
        if step % SAVE_EVERY == 0 or step == steps:
            save({"model": model.state_dict(), "optimisers": [o.state_dict() for o in each], "drill": drill.state(),
                  "step": step, "seed": seed, "go_on": go_on, "command": command}, checkpoint)
    learner.close()
    save(model.state_dict(), WORK / f"{name}.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--name", default="llm", help="of the files in tools/zoo/work/llm")
    parser.add_argument("--rate", type=float, default=RATE, help="the highest learning rate")
    parser.add_argument("--go-on", action="store_true", help="from the weights of the package, with its tokenizer")
    parser.add_argument("--drill", metavar="NAME", help="begin with the weights of phrasings that this run ended with")
    parser.add_argument("--processes", type=int, default=1, help="that divide each batch")
    arguments = parser.parse_args()
    train(**vars(arguments))
