"""Trains a tokenizer of each format on the toy language, and records the results of its Python package.

    python runtime/text/tests/make_tokenizers.py [NAME...]

Needs tokenizers, sentencepiece, tiktoken, mistral-common, pytorch-tokenizers and transformers. Writes to
`tests/data` the files `bytes.json`, `metaspace.json`, `bpe.model`, `unigram.model`, `plain.model`,
`tiktoken.model`, `tekken.json`, `wordpiece.json`, `vocab.txt`, `clip.json` and `llama2c.bin`, or only those
that are named, and `tokenizer_cases.json`: texts with their tokens, and tokens with their text, for each
file.
"""

import base64
import io
import json
import pathlib
import random
import sys

import sentencepiece
import tiktoken
import tokenizers
import toy_language
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

DATA = pathlib.Path(__file__).parent / "data"
VOCABULARY = 420
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "", " ", "  ", "   \n ", "\n", "\t", "a", "Q: what comes after monday?\nA:", " tuesday", "tuesday ",
    "  two  spaces  between  ", "tabs\tand\nlines\r\n\r\n", "It's 12345 o'clock, isn't it? WE'LL see!!",
    "grüß dich", "enchanté", "dobrý den", "γεια σου", "привет, мир", "こんにちは", "你好世界", "👋🏽 hi 👩‍👩‍👧‍👦",
    "e\u0301 and é", "ﬁne ﬀ ½ Ⅳ ｆｕｌｌ", "\u00a0nbsp\u2003em\u200bzero", "\u0000null\u0007bell", "\ufeffbom", "\ufffd",
    "x" * 300, "monday " * 40, "a\u0300\u0301\u0302", "السلام عليكم", "नमस्ते", "▁under▁score", "<s>", "</s> and <s>",
    "<|begin_of_text|>hello<|eot_id|>", "before <tool> after", "<tool><tool>", "fn main() { println!(\"{}\", 1 << 20); }",
]


def texts():
    rng = random.Random(5)
    alphabet = "abc dé日👋\n\t ' 12ß▁<>"
    return TEXTS + ["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 40))) for _ in range(60)]


def token_lists(size, rng):
    return [[rng.randrange(size) for _ in range(rng.randrange(1, 24))] for _ in range(60)]


def hugging_face(made, path):
    made.save(str(path), pretty=False)
    encode = lambda text: made.encode(text, add_special_tokens=False).ids
    return encode, made.decode, made.get_vocab_size()


def bytes_json(path):
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(toy_language.lines(), trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_tokens(["<tool>"])
    return hugging_face(made, path)


def metaspace_json(path):
    """Like the files of Llama 2 and Gemma."""
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made.train_from_iterator(toy_language.lines(), trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)],
        show_progress=False))
    content = json.loads(made.to_str())
    # Byte tokens are ordinary tokens of the vocabulary and must not match text.
    content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
    return hugging_face(tokenizers.Tokenizer.from_str(json.dumps(content)), path)


def sentence_piece(path, **options):
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line.strip() for line in list(toy_language.lines()) * 20), model_writer=written,
        user_defined_symbols=["<tool>"], hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    path.write_bytes(written.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return model.encode, model.decode, model.vocab_size()


def bpe_model(path):
    """Like the file of Llama 2: no normalization, byte fallback for unknown characters."""
    return sentence_piece(path, model_type="bpe", vocab_size=VOCABULARY, byte_fallback=True, normalization_rule_name="identity",
                          remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True)


def unigram_model(path):
    """Like the file of T5: NFKC normalization."""
    return sentence_piece(path, model_type="unigram", vocab_size=150, normalization_rule_name="nmt_nfkc")


def plain_model(path):
    """Byte fallback, no dummy prefix."""
    return sentence_piece(path, model_type="unigram", vocab_size=VOCABULARY, byte_fallback=True, add_dummy_prefix=False,
                          normalization_rule_name="identity")


def tiktoken_model(path):
    """Like the file of Llama 3."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    made.train_from_iterator(toy_language.lines(), trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    byte = {character: value for value, character in byte_characters()}
    # As in tiktoken files, bytes have the lowest ranks, followed by merges in order.
    by_rank = sorted(made.get_vocab().items(), key=lambda item: (len(item[0]) > 1, item[1]))
    ranks = {bytes(byte[character] for character in token): rank for rank, (token, _) in enumerate(by_rank)}
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
             "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>",
             "<|python_tag|>"]
    names += [f"<|reserved_special_token_{number}|>" for number in range(2, 256 - len(names) + 2)]
    special = {name: len(ranks) + at for at, name in enumerate(names)}
    model = tiktoken.Encoding("toy", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens=special)
    decode = lambda tokens: model.decode([token for token in tokens if token < len(ranks)])
    return lambda text: model.encode(text, allowed_special="all"), decode, model.n_vocab


def byte_characters():
    """Characters that represent bytes in GPT-2 vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    yield from ((byte, chr(byte)) for byte in printable)
    rest = [byte for byte in range(256) if byte not in printable]
    yield from ((byte, chr(256 + at)) for at, byte in enumerate(rest))


def tekken_json(path):
    """Like the files of Mistral, whose special tokens have the lowest ids."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    made.train_from_iterator(toy_language.lines(), trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    byte = {character: value for value, character in byte_characters()}
    by_rank = sorted(made.get_vocab().items(), key=lambda item: (len(item[0]) > 1, byte.get(item[0], item[1])))
    tokens = [bytes(byte[character] for character in token) for token, _ in by_rank]
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
               "[/TOOL_RESULTS]", "[TOOL_CALLS]"]
    content = {
        "config": {"pattern": LLAMA3, "num_vocab_tokens": len(tokens), "default_vocab_size": len(tokens) + 16,
                   "default_num_special_tokens": 16, "version": "v7"},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                  for rank, token in enumerate(tokens)],
        "special_tokens": [{"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(special)],
    }
    path.write_text(json.dumps(content))
    model = Tekkenizer.from_file(path)
    # As above, without special tokens, which split a text for this package.
    decode = lambda listed: model.decode([token for token in listed if token >= 16])
    return lambda text: model.encode(text, False, False), decode, model.n_words


def bert(cased):
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    lines = [line if index % 3 else line.title() for index, line in enumerate(toy_language.lines())]
    made.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=260, special_tokens=special, initial_alphabet=list("abcé日.,!?'"), show_progress=False))
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


def wordpiece_json(path):
    """Like the file of a cased BERT."""
    return hugging_face(bert(cased=True), path)


def vocab_txt(path):
    """Like the file of an uncased BERT, without a tokenizer.json."""
    from transformers import BertTokenizer

    made = bert(cased=False)
    vocabulary = sorted(made.get_vocab().items(), key=lambda item: item[1])
    path.write_text("".join(f"{token}\n" for token, _ in vocabulary))
    model = BertTokenizer(vocab=str(path), do_lower_case=True)
    encode = lambda text: model.encode(text, add_special_tokens=False)
    return encode, lambda tokens: model.decode(tokens, skip_special_tokens=True), len(vocabulary)


def clip_json(path):
    """Like the file of CLIP: lower case, and `</w>` at the ends of words."""
    made = tokenizers.Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    made.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Lowercase()])
    pattern = tokenizers.Regex(
        r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(pattern, "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(toy_language.lines(), trainers.BpeTrainer(
        vocab_size=640, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), end_of_word_suffix="</w>",
        special_tokens=["<|startoftext|>", "<|endoftext|>"], show_progress=False))
    # The trainer has only those letters with `</w>` that it has seen.
    content = json.loads(made.to_str())
    for character in pre_tokenizers.ByteLevel.alphabet():
        content["model"]["vocab"].setdefault(character + "</w>", len(content["model"]["vocab"]))
    made = tokenizers.Tokenizer.from_str(json.dumps(content))
    encode, decode, size = hugging_face(made, path)
    # `CLIPTokenizer` of transformers does this.
    return encode, lambda tokens: decode(tokens).replace("</w>", " ").strip(), size


def llama2c_bin(path):
    """Like the files of llama2.c, with the header of ExecuTorch."""
    import tempfile

    from pytorch_tokenizers.llama2c import Llama2cTokenizer

    with tempfile.NamedTemporaryFile(suffix=".model") as written:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line.strip() for line in list(toy_language.lines()) * 20), model_writer=written,
            model_type="bpe", vocab_size=340, byte_fallback=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, minloglevel=2, num_threads=1)
        written.flush()
        model = Llama2cTokenizer(written.name)
    model.export(str(path))
    return lambda text: model.encode(text, False, False), model.decode, model.n_words


KINDS = {
    "bytes.json": bytes_json, "metaspace.json": metaspace_json, "bpe.model": bpe_model,
    "unigram.model": unigram_model, "plain.model": plain_model, "tiktoken.model": tiktoken_model,
    "tekken.json": tekken_json, "wordpiece.json": wordpiece_json, "vocab.txt": vocab_txt, "clip.json": clip_json,
    "llama2c.bin": llama2c_bin,
}


def main():
    target = DATA / "tokenizer_cases.json"
    cases = json.loads(target.read_text()) if sys.argv[1:] else {}
    for name in sys.argv[1:] or KINDS:
        path, rng = DATA / name, random.Random(7)
        encode, decode, size = KINDS[name](path)
        encoded = [{"text": text, "tokens": list(encode(text))} for text in texts()]
        lists = [case["tokens"] for case in encoded] + token_lists(size, rng)
        decoded = [{"tokens": tokens, "text": decode(tokens)} for tokens in lists if tokens]
        cases[name] = {"size": size, "encode": encoded, "decode": decoded}
        print(f"{name}: {path.stat().st_size} bytes, {size} tokens")
    target.write_text(json.dumps(cases, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
