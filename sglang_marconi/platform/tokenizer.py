"""A byte-level tokenizer whose ids survive the way through text, for models with random weights.

A random model writes any sequence of ids, also bytes that are no UTF-8. A chat client sends that reply back as text:
to be found in the cache it must become the same ids again. So every id has a text of its own: an ASCII byte is its
character, another byte is written ``<0xE2>``, and the ids that no byte needs are written ``<|300|>``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

VOCAB_SIZE = 512
END_TOKEN_ID = 0
MARKERS = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
FIRST_BYTE_TOKEN_ID = 8
# Ends every message and opens the reply with nothing that depends on later turns: what a turn rendered is a prefix of
# what the next one renders.
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def save_tokenizer(directory: Path, max_tokens: int) -> None:
    """Write ``tokenizer.json``, its configuration and the chat template beside a model's ``config.json``.

    Args:
        directory: the model's directory.
        max_tokens: the model's context length.
    """
    texts = _texts()
    model = BPE(vocab={text: token for token, text in enumerate(texts)}, merges=[], byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Fuse()
    # Only the end token is special: special tokens are left out of a reply's text.
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in texts[1:] if len(text) > 1])
    tokenizer.add_special_tokens([AddedToken(MARKERS[END_TOKEN_ID], normalized=False, special=True)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=MARKERS[END_TOKEN_ID],
        pad_token=MARKERS[END_TOKEN_ID],
        model_max_length=max_tokens,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
    fast.save_pretrained(directory)


def fold_token_ids(token_ids: Iterable[int]) -> list[int]:
    """Ids of a larger vocabulary as ids of this one, no marker among them; shared prefixes stay shared."""
    plain = VOCAB_SIZE - FIRST_BYTE_TOKEN_ID
    return [FIRST_BYTE_TOKEN_ID + token % plain for token in token_ids]


def _texts() -> list[str]:
    """The text of each id, in order."""
    reserved = [f"<|{token}|>" for token in range(len(MARKERS), FIRST_BYTE_TOKEN_ID)]
    ascii_bytes = [chr(byte) for byte in range(128)]
    other_bytes = [f"<0x{byte:02X}>" for byte in range(128, 256)]
    named = [*MARKERS, *reserved, *ascii_bytes, *other_bytes]
    return named + [f"<|{token}|>" for token in range(len(named), VOCAB_SIZE)]
