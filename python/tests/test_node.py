"""Nodes in Python."""

import textwrap
import time

import numpy as np
import pytest

import afferent

SHOUT = """
    import afferent

    class Shout(afferent.Node):
        "Makes a text loud."

        text = afferent.In("text/Text", "Texts.")
        out = afferent.Out("text/Text")
        mark = afferent.Param("!", "Mark at the end.", choices=("!", "?"))

        def open(self):
            self.count = 0

        def process(self, cx):
            self.count += 1
            text = cx.text.text
            if text == "fail":
                raise ValueError("no such word")
            if text == "die":
                import os
                os._exit(7)
            cx.send(self.out, f"{self.count} {text.upper()}{self.mark}")

        def finish(self, cx):
            cx.send(self.out, "the end")
"""


def graph(file, on_error="stop", **params):
    return afferent.Graph.from_nodes(
        {
            "say": {"use": "app_source", "params": {"type": "text/Text"}},
            "shout": {
                "use": "python",
                "params": {"file": str(file), **params},
                "in": "say.out",
                "on_error": on_error,
            },
        }
    )


@pytest.fixture
def shout(tmp_path):
    file = tmp_path / "shout.py"
    file.write_text(textwrap.dedent(SHOUT))
    return file


def answers(graph, texts, pause=0.0):
    with graph.start(streams=["shout.out"]) as run:
        for text in texts:
            run.send("say", text)
            time.sleep(pause)
        run.end_input()
        return [message.text for message in run.stream("shout.out")]


def test_a_node_handles_packets_with_its_parameters(shout):
    assert answers(graph(shout, mark="?"), ["a", "b"]) == ["1 A?", "2 B?", "the end"]


def test_ports_and_parameters_are_checked(shout):
    with pytest.raises(afferent.GraphError, match='"x" is not one of !, ?'):
        graph(shout, mark="x")
    with pytest.raises(afferent.GraphError, match='unknown parameter "marc"'):
        graph(shout, marc="!")


def test_errors_name_the_line(shout):
    with pytest.raises(afferent.RunError, match="shout.py: line 18: ValueError: no such word"):
        answers(graph(shout), ["fail"])


@pytest.mark.parametrize("word", ["fail", "die"])
def test_a_node_starts_again_after_an_error(shout, word):
    # What arrives before the node runs again is dropped, and counted.
    assert answers(graph(shout, "restart"), ["a", word, "b"], pause=1.0) == ["1 A!", "1 B!", "the end"]


def test_a_process_that_ends_is_named(shout):
    with pytest.raises(afferent.RunError, match="shout.py: its process ended: exit status: 7"):
        answers(graph(shout), ["die"])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nothing_here", "line 1: ModuleNotFoundError: No module named 'nothing_here'"),
        ("def f(:", "line 1: SyntaxError: invalid syntax"),
        ("x = 1", "ImportError: no class that derives from afferent.Node"),
        ("import os; os._exit(5)", "ended with exit status: 5"),
        (
            "import afferent\nclass A(afferent.Node):\n  x = afferent.In('text/Txt')",
            'port x: there is no payload type "text/Txt"; there are ',
        ),
        (
            "import afferent\nclass A(afferent.Node):\n  file = afferent.Param(1)",
            "the name of the parameter file is taken",
        ),
    ],
)
def test_wrong_files_are_named(tmp_path, code, message):
    file = tmp_path / "wrong.py"
    file.write_text(code)
    with pytest.raises(afferent.GraphError) as caught:
        graph(file)
    assert message in str(caught.value) and "wrong.py" in str(caught.value)


def test_images_go_through_shared_memory(tmp_path):
    file = tmp_path / "invert.py"
    file.write_text(
        textwrap.dedent(
            """
            import afferent

            class Invert(afferent.Node):
                image = afferent.In("vision/Image")
                out = afferent.Out("vision/Image")

                def process(self, cx):
                    assert not cx.image.data.flags.writeable
                    cx.send(self.out, 255 - cx.image.data, like=cx.image)
            """
        )
    )
    graph = afferent.Graph.from_nodes(
        {
            "camera": {"use": "test_pattern", "params": {"count": 8}},
            "invert": {"use": "python", "params": {"file": str(file)}, "in": "camera.images"},
        }
    )
    sent, received = [], []
    graph.run(on={"camera.images": sent.append, "invert.out": received.append}, virtual=True)
    assert len(sent) == len(received) == 8
    for before, after in zip(sent, received):
        assert after.at == before.at and after.frame_id == before.frame_id
        np.testing.assert_array_equal(after.data, 255 - before.data)


def test_a_source_sends_until_it_ends(tmp_path):
    file = tmp_path / "count.py"
    file.write_text(
        textwrap.dedent(
            """
            import afferent

            class Count(afferent.Node):
                out = afferent.Out("text/Text")

                def open(self):
                    self.number = 0

                def process(self, cx):
                    self.number += 1
                    cx.send(self.out, str(self.number), at=self.number * 0.5)
                    if self.number == 3:
                        cx.end()
                    else:
                        cx.resume_at(cx.now + 0.5)
            """
        )
    )
    graph = afferent.Graph.from_nodes({"count": {"use": "python", "params": {"file": str(file)}}})
    heard = []
    graph.run(on={"count.out": heard.append}, virtual=True)
    assert [(message.text, message.at) for message in heard] == [("1", 0.5), ("2", 1.0), ("3", 1.5)]


def test_a_changed_file_is_loaded_again(shout):
    with graph(shout, reload=True).start(streams=["shout.out"]) as run:
        stream = run.stream("shout.out")
        run.send("say", "a")
        assert stream.get(5).text == "1 A!"
        time.sleep(0.5)
        shout.write_text(textwrap.dedent(SHOUT).replace("upper()", "title() + '-'"))
        run.send("say", "b")
        assert stream.get(5).text == "1 B-!"
        time.sleep(0.5)
        shout.write_text("this is no Python")
        run.send("say", "c")
        assert stream.get(5).text == "2 C-!", "the earlier code runs on"


IMAGES = """
    import numpy as np

    import afferent

    class Sender(afferent.Node):
        out = afferent.Out("vision/Image")
        twice = afferent.Param(False)

        def open(self):
            self.sent = 0
            self.kept = []

        def process(self, cx):
            self.sent += 1
            for shape, dtype in [((1 << 62, 4), "float32"), ((1 << 62, 0, 4), "float32"), (3, object)]:
                try:
                    cx.empty(shape, dtype)
                except (TypeError, ValueError):
                    continue
                raise AssertionError(f"an array of {shape} {dtype}")
            assert cx.empty((3, 0), "float32").shape == (3, 0)
            image = cx.empty((100, 200), "uint8")
            image.fill(self.sent)
            cx.send(self.out, image, at=self.sent / 100)
            assert not image.flags.writeable
            if self.twice:
                cx.send(self.out, image, at=self.sent / 100)
            # Its memory is used again.
            self.kept.append(image)
            cx.send(self.out, np.full((10, 3), self.sent, np.uint8), at=self.sent / 100 + 0.001)
            return cx.end() if self.sent == 200 else cx.resume()

    class Relay(afferent.Node):
        image = afferent.In("vision/Image")
        out = afferent.Out("vision/Image")

        def process(self, cx):
            part = cx.image.data[50:] if round(cx.image.at * 100) % 2 else None
            if part is None or len(part) == 0:
                cx.send(self.out, cx.image)
            else:
                cx.send(self.out, part, like=cx.image)

    class Checker(afferent.Node):
        image = afferent.In("vision/Image")
        out = afferent.Out("text/Text")

        def process(self, cx):
            pixels = cx.image.data
            assert (pixels == round(cx.image.at * 100 - 0.05)).all(), (cx.image.at, pixels)
            cx.send(self.out, "x".join(map(str, pixels.shape)))
"""


def images(tmp_path, **params):
    file = tmp_path / "images.py"
    file.write_text(textwrap.dedent(IMAGES))

    def node(name, **wiring):
        own = params if name == "Sender" else {}
        return {"use": "python", "params": {"file": str(file), "class": name, **own}, **wiring}

    block = {"on_full": "block"}
    return afferent.Graph.from_nodes(
        {
            "sender": node("Sender"),
            "relay": node("Relay", **{"in": {"image": {"from": "sender.out", **block}}}),
            "checker": node("Checker", **{"in": {"image": {"from": "relay.out", **block}}}),
        }
    )


def test_arrays_pass_through_processes_in_shared_memory(tmp_path):
    with images(tmp_path).start(streams=["checker.out"]) as run:
        sizes = [message.text for message in run.stream("checker.out")]
    # The even ones are passed on whole, and of the odd ones the part after the first 50 rows.
    assert sizes.count("100x200") == 100 and sizes.count("50x200") == 100
    assert sizes.count("10x3") == 200


def test_an_array_is_sent_once(tmp_path):
    with pytest.raises(afferent.RunError, match="sent already"):
        images(tmp_path, twice=True).run()
