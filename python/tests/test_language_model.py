"""Text generation with the shipped model."""

import pytest

import afferent


@pytest.fixture(scope="module")
def model(request):
    root = request.path.parents[2]
    return afferent.LanguageModel(root / "pipelines/models/llm")


def test_text_goes_to_tokens_and_back(model):
    tokens = model.tokenizer.encode("turn on the kitchen lights")
    assert model.tokenizer.decode(tokens).strip() == "turn on the kitchen lights"
    assert max(tokens) < model.tokenizer.vocab_size


def test_an_answer_is_the_same_at_once_and_in_parts(model):
    parts = []
    answer = model.generate("hello", max_tokens=12, on_text=parts.append)
    assert answer["text"] == "".join(parts) == "".join(model.stream("hello", max_tokens=12))
    assert 0 < len(answer["tokens"]) <= 12
    assert answer["finish"] in ("eos", "stop", "max_tokens", "length")
    tokens = model.tokenizer.encode("hello")
    assert model.generate(tokens, max_tokens=1)["tokens"]


def test_errors_of_callbacks_and_arguments_are_raised(model):
    def fail(part):
        raise KeyError(part)

    with pytest.raises(KeyError):
        model.generate("hello", max_tokens=12, on_text=fail)
    with pytest.raises(afferent.ArgumentError, match="either a prompt or messages"):
        model.generate()


def test_a_stream_can_be_closed_early(model):
    stream = model.stream("hello", max_tokens=1000)
    next(stream)
    stream.close()
    assert model.generate("hello", max_tokens=2)["tokens"]
