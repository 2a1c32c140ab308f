"""Conversations as text: ShareGPT, LMSYS-Chat, Chatbot Arena, OpenAI messages, SWE-agent trajectories.

A record holds one conversation (Chatbot Arena's holds two). Messages are framed as ChatML does it, and every message of
the model is a reply to all that comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sglang_marconi.sim.traces.lines import Line
from sglang_marconi.sim.traces.session_trace import TokenSession

Encode = Callable[[str], Sequence[int]]
Message = tuple[str, str]  # role, text

#: Keys that hold a conversation's messages, in the order in which they are looked for.
CONVERSATION_KEYS = ("conversations", "conversation", "conversation_a", "messages", "history", "trajectory")
_ROLE_KEYS = ("role", "from")
_TEXT_KEYS = ("content", "value", "text")
_MODEL_ROLES = {"assistant", "gpt", "ai", "chatgpt", "bing", "bard", "model"}
# ShareGPT's cleaned files cut long conversations into records X_0, X_1, ... that follow one another.
_PIECE = re.compile(r"(.+)_(\d+)")


def load_tokenizer(path: str | Path) -> Encode:
    """How a tokenizer turns text into ids.

    Args:
        path: a ``tokenizer.json``, or the folder of a model that has one.

    Raises:
        ValueError: there is none, or the package ``tokenizers`` is not installed.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "tokenizer.json"
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError("conversations in text need the package tokenizers: pip install tokenizers") from None
    if not file.is_file():
        raise ValueError(f"the tokenizer must be a tokenizer.json or a folder with one, got {str(path)!r}")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises a plain Exception
        raise ValueError(f"{file} is no tokenizer: {error}") from None
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def read_conversations(lines: Iterator[Line], encode: Encode) -> Iterator[TokenSession]:
    """The sessions of a file; conversations without a reply are left out.

    Raises:
        ValueError: a record holds no messages, or one without role or text.
    """
    for name, messages in _joined(_conversations(lines)):
        session = _tokenize(name, messages, encode)
        if session.turns:
            yield session


def _conversations(lines: Iterator[Line]) -> Iterator[tuple[str, list[Message]]]:
    for line in lines:
        key = next((key for key in CONVERSATION_KEYS if key in line.value), None)
        if key is None:
            raise line.error(f"a conversation needs one of {', '.join(CONVERSATION_KEYS)}; got {', '.join(line.value)}")
        name = next((str(line.value[k]) for k in ("id", "conversation_id", "instance_id") if k in line.value), "")
        if key == "trajectory" and "history" in line.value:
            key = "history"
        yield name or str(line.number), _messages(line, key)
        if key == "conversation_a" and "conversation_b" in line.value:
            yield f"{name or line.number}-b", _messages(line, "conversation_b")


def _messages(line: Line, key: str) -> list[Message]:
    messages = line.get(key)
    if not isinstance(messages, list):
        raise line.error(f"{key} must be a list of messages, got {type(messages).__name__}")
    return [_message(line, key, message) for message in messages]


def _message(line: Line, key: str, message: Any) -> Message:
    if not isinstance(message, dict):
        raise line.error(f"{key} must hold objects with a role and a text, got {type(message).__name__}")
    role = next((message[k] for k in _ROLE_KEYS if k in message), None)
    text = next((message[k] for k in _TEXT_KEYS if message.get(k) is not None), "")
    if isinstance(text, list):  # parts of text, images, ...
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    if not isinstance(role, str) or not isinstance(text, str):
        raise line.error(
            f"{key} must hold messages with a role ({', '.join(_ROLE_KEYS)}) and a text; got {list(message)}"
        )
    return role, text


def _joined(conversations: Iterator[tuple[str, list[Message]]]) -> Iterator[tuple[str, list[Message]]]:
    """The pieces of a cut conversation made one again."""
    open_name, open_piece, joined = "", -1, list[Message]()
    for name, messages in conversations:
        match = _PIECE.fullmatch(name)
        base, piece = (match[1], int(match[2])) if match else (name, -1)
        if match and base == open_name and piece == open_piece + 1:
            joined, open_piece = joined + messages, piece
            continue
        if joined:
            yield open_name, joined
        open_name, open_piece, joined = base, piece, messages
    if joined:
        yield open_name, joined


def _tokenize(name: str, messages: list[Message], encode: Encode) -> TokenSession:
    tokens: list[int] = []
    turns = []
    for role, text in messages:
        is_reply = role in _MODEL_ROLES
        tokens += encode(f"<|im_start|>{'assistant' if is_reply else role}\n")
        start = len(tokens)
        tokens += encode(f"{text}<|im_end|>")
        if is_reply:
            turns.append((start, len(tokens)))
        tokens += encode("\n")
    return TokenSession(name, np.array(tokens, np.uint32), turns)
