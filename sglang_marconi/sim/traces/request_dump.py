"""What SGLang's ``--dump-requests-folder`` writes: pickled requests and answers.

A pickle may run code when it is loaded. Here no class or function of the file is looked up: each is replaced by an
empty class that only keeps what it is given, so a dump can be read without SGLang and without trusting it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglang_marconi.sim.traces.text_trace import Encode

_PICKLE = b"\x80"


class _Stub:
    """Stands for any object of the file."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> _Stub:
        return super().__new__(cls)

    def __init__(self, *_args: Any, **_kwargs: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)

    def __setitem__(self, key: Any, value: Any) -> None: ...
    def append(self, item: Any) -> None:
        """Items of a list's subclass are not needed."""

    def extend(self, items: Any) -> None:
        """Likewise."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return type(name, (_Stub,), {"__module__": module})

    def persistent_load(self, _pid: Any) -> Any:
        return None


def is_request_dump(path: Path) -> bool:
    """Whether a file is a pickle."""
    with path.open("rb") as file:
        return file.read(1) == _PICKLE


def read_request_dump(path: Path, encode: Encode | None) -> Iterator[dict[str, Any]]:
    """The requests of a dump as lines of a token trace, in the order in which they came.

    Args:
        path: a ``.pkl`` file.
        encode: the tokenizer, for requests whose prompt or answer is there as text only.

    Raises:
        ValueError: the file is no dump, or a text needs a tokenizer.
    """
    try:
        with path.open("rb") as file:
            content = _Unpickler(file).load()
        requests = sorted(content["requests"], key=lambda request: request[2])
    except Exception as error:
        raise ValueError(f"{path}: no dump of requests of SGLang: {type(error).__name__}: {error}") from None
    for number, (request, answer, created_s, _) in enumerate(requests):
        place = f"{path}, request {number}"
        prompt = _ids(getattr(request, "input_ids", None), getattr(request, "text", None), encode, place)
        reply = _ids(answer.get("output_ids"), answer.get("text"), encode, place)
        yield {"session_id": str(number), "ts": float(created_s), "input_tokens": prompt, "output_tokens": reply}


def _ids(ids: Any, text: Any, encode: Encode | None, place: str) -> list[int]:
    if ids is not None and all(type(token) is int for token in ids):
        return list(ids)
    if not isinstance(text, str):
        raise ValueError(
            f"{place}: must have token ids or a text, one prompt a request; got {type(ids or text).__name__}"
        )
    if encode is None:
        raise ValueError(f"{place}: has its text only; give --tokenizer, a tokenizer.json or a model's folder")
    return list(encode(text))
