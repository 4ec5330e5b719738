"""Renders dialogues with `transformers`, for the chat templates in `tests/data/templates`.

    python runtime/text/tests/make_templates.py

Needs tokenizers and transformers. The templates have the formats of ChatML, Llama 3, Gemma, Mistral and
Phi. Writes to `tests/data` the tokenizer `chat.json`, which has the special tokens of all of them, and
`template_cases.json`: dialogues with their text and tokens.
"""

import json
import pathlib

import tokenizers
import toy_language
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

DATA = pathlib.Path(__file__).parent / "data"
SPECIAL = [
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>",
    "<|python_tag|>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>",
]
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
TOOLS = [
    ("get_time", "returns the time, <now> & \"here\"", {}),
    ("where_is", "finds a thing", {"thing": "name of the thing", "room": "grüner Raum"}),
]


def tokenizer():
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(toy_language.lines(), trainers.BpeTrainer(
        vocab_size=360, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_tokens(ADDED)
    return made


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def dialogues():
    """Name, messages, and true if there are tools."""
    user = said("user", "where are my keys?\n")
    call = {"id": "call00001", "type": "function", "function": {
        "name": "where_is", "arguments": {"thing": "keys", "room": "küche \"x\"", "n": 2, "deep": [1.5, None, True]}}}
    called = said("assistant", "", tool_calls=[call])
    result = said("tool", '{"found": "on the table"}', name="where_is", tool_call_id="call00001")
    yield [said("user", "hello")], False
    yield [said("system", " be short. "), said("user", "  grüß dich 👋\n\n")], False
    yield [said("user", "one"), said("assistant", "two, three"), said("user", "what next?")], False
    yield [said("user", "one"), said("assistant", "<b>two</b> {{ x }} {% y %}"), said("user", "")], False
    yield [said("system", "you have tools"), user], True
    yield [user, called, result], True
    yield [said("system", "s"), user, called, result, said("assistant", "on the table"), said("user", "thanks")], True


def schema(name, about, arguments):
    properties = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


def main():
    tokenizer().save(str(DATA / "chat.json"), pretty=False)
    made = PreTrainedTokenizerFast(tokenizer_file=str(DATA / "chat.json"), bos_token="<s>", eos_token="</s>")
    cases = {}
    for path in sorted((DATA / "templates").glob("*.jinja")):
        template, cases[path.stem] = path.read_text(), []
        for messages, has_tools in dialogues():
            if path.stem in ("gemma", "phi") and has_tools:
                continue
            for prompt in (True, False):
                options = dict(chat_template=template, add_generation_prompt=prompt)
                if has_tools:
                    options["tools"] = [schema(*tool) for tool in TOOLS]
                text = made.apply_chat_template(messages, tokenize=False, **options)
                tokens = made.apply_chat_template(messages, tokenize=True, return_dict=False, **options)
                assert tokens == made.encode(text, add_special_tokens=False)
                cases[path.stem].append({"messages": messages, "tools": has_tools, "prompt": prompt, "text": text, "tokens": tokens})
    tools = [{"name": name, "description": about, "arguments": arguments} for name, about, arguments in TOOLS]
    (DATA / "template_cases.json").write_text(json.dumps({"tools": tools, "cases": cases}, ensure_ascii=True) + "\n")
    print({name: len(list_) for name, list_ in cases.items()}, (DATA / "template_cases.json").stat().st_size)


if __name__ == "__main__":
    main()
