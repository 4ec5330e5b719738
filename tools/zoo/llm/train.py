"""Trains the tokenizer and the language model on generated dialogues.

An interrupted run resumes.
"""
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
from model import CONTEXT, LAYERS, WIDTH, Llama, fake_quantize, grow, shape
from sampler import PhrasingSampler

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from checkpoint import load_checkpoint, save
from exported_weights import assign_by_shape, read_constants

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "pipelines" / "models" / "llm"
WORK = pathlib.Path(__file__).resolve().parents[1] / "work" / "llm"
STEPS, BATCH_TOKENS, DIALOGUES_PER_DRAW = 4400, 4608, 192
PEAK_LR, WARMUP_STEPS, WEIGHT_DECAY = 3e-3, 150, 0.05
# A run from random weights starts with fewer layers, which learn as much in less time. From this
# share of the steps on it has all layers and trains with quantized weights (quantization-aware
# training).
FIRST_LAYERS, GROW_AT = 4, 0.6
CHECKPOINT_EVERY, REPORT_EVERY = 50, 20


def draw_turn_count(rng):
    """Draws the number of turns of a dialogue: most are short, some fill the context."""
    return rng.choice((rng.randint(1, 4), rng.randint(1, 4), rng.randint(3, 9), rng.randint(3, 9), rng.randint(6, 16)))


def batches(tokenizer, sampler, seed, step):
    """Yields batches from a step on. Dialogues of a batch have similar lengths."""
    spaceless = tokens.without_space(tokenizer)
    while True:
        # Each draw of dialogues has its own seed, and yields as many batches as its tokens fill.
        rng = random.Random(f"{seed} {step}")
        drawn = [dialogue(rng, draw_turn_count(rng), sampler) for _ in range(DIALOGUES_PER_DRAW)]
        drawn = [(*tokens.encode_dialogue(rng, tokenizer, spaceless, system, turns), [turn.core for turn in turns])
                 for system, turns in drawn]
        drawn.sort(key=lambda example: len(example[0]))
        groups = [[]]
        for example in drawn:
            if groups[-1] and (len(groups[-1]) + 1) * min(len(example[0]), CONTEXT) > BATCH_TOKENS:
                groups.append([])
            groups[-1].append(example)
        rng.shuffle(groups)
        yield from map(collate, groups)
        step += 1


def collate(examples):
    """Builds a batch.

    Returns the inputs; the next token of each; the index of its turn, counted over the whole batch,
    or -1 if it is not a target; and the cores of those turns.
    """
    length = min(CONTEXT, max(len(ids) for ids, _, _ in examples) - 1)
    inputs, targets = torch.zeros(2, len(examples), length, dtype=torch.long)
    turns, cores = torch.full((len(examples), length), -1), []
    for row, (ids, indices, turn_cores) in enumerate(examples):
        ids, indices = ids[:length + 1], indices[1:length + 1]
        inputs[row, :len(ids) - 1], targets[row, :len(ids) - 1] = torch.tensor(ids[:-1]), torch.tensor(ids[1:])
        turns[row, :len(indices)] = torch.tensor([-1 if turn is None else len(cores) + turn for turn in indices])
        # A dialogue that exceeds the context loses its last turns.
        cores += turn_cores[:max((turn for turn in indices if turn is not None), default=-1) + 1]
    return inputs, targets, turns, cores


def loss_and_gradients(weights, inputs, targets, turns, count):
    """Returns the loss of each target token, and the gradients of their sum divided by `count`."""
    mask = turns >= 0
    with torch.autocast("cpu", torch.bfloat16):
        logits = weights(inputs, mask)
    losses = F.cross_entropy(logits.float(), targets[mask], reduction="none")
    return losses.detach(), torch.autograd.grad(losses.sum() / count, list(weights.parameters()))


class DataParallel:
    """Splits the rows of a batch among processes that share the weights.

    Threads do not help: the operations are too small to be split, and compiled layers block the
    other threads of a process.
    """

    def __init__(self, weights, processes):
        self.weights = weights.share_memory()
        self.workers = []
        context = torch.multiprocessing.get_context("spawn")
        for _ in range(processes - 1):
            gradients = [torch.zeros_like(p).share_memory_() for p in weights.parameters()]
            ours, theirs = context.Pipe()
            context.Process(target=run_worker, args=(weights, gradients, theirs), daemon=True).start()
            self.workers.append((ours, gradients))
        compile_layers(weights)

    def backward(self, model, inputs, targets, turns):
        """Returns the loss of each target token, and sets the gradients of the mean loss on
        `model`.
        """
        count = (turns >= 0).sum()
        first, *rest = zip(*(x.chunk(1 + len(self.workers)) for x in (inputs, targets, turns)))
        requests = list(zip(self.workers, rest))
        for (pipe, _), part in requests:
            pipe.send([x.numpy() for x in (*part, count)])
        losses, gradients = loss_and_gradients(self.weights, *first, count)
        all_losses, all_gradients = [losses], [gradients]
        for (pipe, gradients), _ in requests:
            try:
                all_losses.append(torch.from_numpy(pipe.recv()))
            except (EOFError, OSError):
                raise SystemExit("a training process has exited; run again to resume from the last checkpoint")
            all_gradients.append(gradients)
        for p, parts in zip(model.parameters(), zip(*all_gradients)):
            p.grad = sum(parts[1:], parts[0])
        return torch.cat(all_losses)

    def close(self):
        for pipe, _ in self.workers:
            pipe.send(None)


def run_worker(weights, gradients, pipe):
    """Answers requests with losses. The gradients are in memory shared with the main process."""
    torch.set_num_threads(1)
    compile_layers(weights)
    while (part := pipe.recv()) is not None:
        losses, computed = loss_and_gradients(weights, *map(torch.from_numpy, part[:3]), torch.tensor(part[3]))
        for shared, gradient in zip(gradients, computed):
            shared.copy_(gradient)
        pipe.send(losses.numpy())


def compile_layers(model):
    for layer in model.layers:
        layer.compile(dynamic=True)


@torch.no_grad()
def copy_quantized(model, quantized):
    """Copies the weights to `quantized` with the rounding of the export (straight-through
    estimator).
    """
    for p, q in zip(model.parameters(), quantized.parameters()):
        q.copy_(fake_quantize(p) if p.dim() == 2 else p)


def create_optimizers(model):
    """Returns Muon for the matrices of the layers, in two halves for two threads, and AdamW for the
    rest.
    """
    inner = [p for name, p in model.named_parameters() if p.dim() == 2 and "tok_embeddings" not in name]
    outer = [p for name, p in model.named_parameters() if p.dim() != 2 or "tok_embeddings" in name]
    return [*(torch.optim.Muon(half, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
              for half in (inner[::2], inner[1::2])),
            torch.optim.AdamW(outer, weight_decay=0.0, betas=(0.9, 0.98))]


def learning_rate(step, steps, peak):
    return peak * min(1, (step + 1) / WARMUP_STEPS) * (1 - step / steps + 1e-3)


def load_package(vocabulary):
    """Returns a model with the weights of the package, grown if the package has fewer layers."""
    parts = ["attention_norm", "attention.wq", "attention.wk", "attention.wv", "attention.wo",
             "ffn_norm", "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"]
    values = list(read_constants(PACKAGE / "llm_portable.pte"))
    # A layer has four square matrices.
    model = Llama(shape(vocabulary, sum(weights.shape == (WIDTH, WIDTH) for weights in values) // 4))
    # In the order in which the program uses them.
    order = ["tok_embeddings.weight",
             *(f"layers.{layer}.{part}.weight" for layer in range(len(model.layers)) for part in parts), "norm.weight"]
    shapes = {name: weights.shape for name, weights in model.named_parameters()}
    assert sorted(order) == sorted(shapes)
    model.load_state_dict(assign_by_shape(order, shapes, values))
    return model if len(model.layers) == LAYERS else grow(model, shape(vocabulary))


def load_sampling_weights(name):
    """Returns the final sampling weights of a run."""
    path = WORK / f"{name}-checkpoint.pt"
    if not path.exists():
        raise SystemExit(f"there is no run {name}: {path} does not exist")
    weights, expected = torch.load(path, weights_only=True)["sampling_weights"], len(PhrasingSampler().state())
    if len(weights) != expected:
        raise SystemExit(f"run {name} has {len(weights)} phrasings instead of {expected}; omit --sampling-weights")
    return weights


def train(seed, steps, name, lr, finetune, sampling_weights, processes):
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(processes)
    torch.manual_seed(seed)
    WORK.mkdir(parents=True, exist_ok=True)
    command = (f"llm/train.py{' --finetune' * finetune} --seed {seed} --steps {steps} --lr {lr}"
               f"{f' --sampling-weights {sampling_weights}' if sampling_weights else ''}")
    tokenizer_file = WORK / f"{name}.json"
    if finetune and not tokenizer_file.exists():
        shutil.copyfile(PACKAGE / "tokenizer.json", tokenizer_file)
    tokenizer = tokens.load(tokenizer_file) if tokenizer_file.exists() else tokens.train(seed, tokenizer_file)
    checkpoint, grow_step = WORK / f"{name}-checkpoint.pt", 0 if finetune else int(steps * GROW_AT)
    saved = load_checkpoint(checkpoint, steps, seed=seed, finetune=finetune) or {"step": 0}
    step, vocabulary = saved["step"], tokenizer.get_vocab_size()
    is_initialized = sampling_weights and not step
    sampler = PhrasingSampler(load_sampling_weights(sampling_weights) if is_initialized
                              else saved.get("sampling_weights"))
    if finetune and not step:
        model = load_package(vocabulary)
    else:
        model = Llama(shape(vocabulary, LAYERS if step > grow_step or finetune else FIRST_LAYERS))
    optimizers = create_optimizers(model)
    quantized = Llama(shape(vocabulary)) if finetune or step > grow_step else model
    if step:
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {vocabulary} tokens", flush=True)
    parallel = DataParallel(quantized, processes)
    start, seen, total = time.time(), 0, []
    for inputs, targets, turns, cores in itertools.islice(batches(tokenizer, sampler, seed, step), steps - step):
        if step == grow_step and not finetune:
            parallel.close()
            model, quantized = grow(model, shape(vocabulary)), Llama(shape(vocabulary))
            optimizers, parallel = create_optimizers(model), DataParallel(quantized, processes)
        for group in itertools.chain(*(optimizer.param_groups for optimizer in optimizers)):
            group["lr"] = learning_rate(step, steps, lr)
        if quantized is not model:
            copy_quantized(model, quantized)
        losses = parallel.backward(model, inputs, targets, turns)
        sampler.update(cores, torch.zeros(len(cores)).index_add_(0, turns[turns >= 0], losses).tolist())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for _ in pool.map(lambda optimizer: optimizer.step(), optimizers):
            pass
        step, seen = step + 1, seen + inputs.numel()
        total.append(losses.mean().item())
        if step % REPORT_EVERY == 0:
            elapsed = time.time() - start
            print(f"step {step} of {steps}: loss {sum(total) / len(total):.4f}, {seen / elapsed:.0f} tokens/s, "
                  f"{elapsed:.0f} s", flush=True)
            total = []
        if step % CHECKPOINT_EVERY == 0 or step == steps:
            save({"model": model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                  "sampling_weights": sampler.state(), "step": step, "seed": seed, "finetune": finetune,
                  "command": command}, checkpoint)
    parallel.close()
    save(model.state_dict(), WORK / f"{name}.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--name", default="llm", help="name of the run: its files in tools/zoo/work/llm")
    parser.add_argument("--lr", type=float, default=PEAK_LR, help="peak learning rate")
    parser.add_argument("--finetune", action="store_true", help="start from the weights and tokenizer of the package")
    parser.add_argument("--sampling-weights", metavar="NAME", help="start from the final sampling weights of this run")
    parser.add_argument("--processes", type=int, default=1, help="processes that share each batch")
    arguments = parser.parse_args()
    train(**vars(arguments))
