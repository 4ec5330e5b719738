"""Text generation."""

import queue
import threading
from collections.abc import Iterator

from . import _afferent


class LanguageModel(_afferent.LanguageModel):
    """A language model with its tokenizer and chat template.

    `generate` returns the whole answer, `stream` its parts as they are generated.
    """

    def stream(self, prompt=None, **options) -> Iterator[str]:
        """Yields the parts of the answer to `prompt`; the options are those of `generate`.

        The generation runs in a thread. It stops when the iterator is closed.
        """
        parts: queue.SimpleQueue = queue.SimpleQueue()
        closed = threading.Event()

        class _Closed(Exception):
            pass

        def on_text(part: str) -> None:
            if closed.is_set():
                raise _Closed
            parts.put(part)

        def generate() -> None:
            try:
                self.generate(prompt, on_text=on_text, **options)
            except _Closed:
                pass
            except BaseException as error:
                parts.put(error)
            parts.put(None)

        thread = threading.Thread(target=generate, name="afferent generate", daemon=True)
        thread.start()
        try:
            while (part := parts.get()) is not None:
                if isinstance(part, BaseException):
                    raise part
                yield part
        finally:
            closed.set()
            thread.join()
