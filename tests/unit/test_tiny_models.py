"""Tiny models: the same seed gives the same weights, and token ids survive the way through text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the models are transformers'")

from sglang_marconi.platform.models import FAMILIES, make_tiny_model
from sglang_marconi.platform.tokenizer import FIRST_BYTE_TOKEN_ID, VOCAB_SIZE, fold_token_ids, save_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoTokenizer

    directory = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(directory, 100)
    return AutoTokenizer.from_pretrained(directory)


def test_every_id_survives_the_way_through_text(tokenizer: Any) -> None:
    rng = random.Random(1)
    token_ids = [rng.randrange(1, VOCAB_SIZE) for _ in range(3000)] + list(range(1, VOCAB_SIZE))
    assert tokenizer.encode(tokenizer.decode(token_ids, skip_special_tokens=True)) == token_ids


def test_text_is_one_token_a_byte(tokenizer: Any) -> None:
    text = "Hi, how are you?\n\tfine…"
    assert len(tokenizer.encode(text)) == len(text.encode())


def test_a_turn_is_rendered_as_a_prefix_of_the_next(tokenizer: Any) -> None:
    def render(messages: list[dict[str, str]]) -> str:
        return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))

    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": " Hello \n"}]
    reply = "  <|300|> hm\n"
    longer = [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": "And?"}]
    assert render(longer).startswith(render(messages) + reply)


def test_folded_ids_are_plain_and_keep_prefixes() -> None:
    folded = fold_token_ids([5, 151_643, 7, 504])
    assert all(FIRST_BYTE_TOKEN_ID <= token < VOCAB_SIZE for token in folded)
    assert fold_token_ids([5, 151_643]) == folded[:2]


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    first, same, other = (
        (make_tiny_model("llama", tmp_path / name, seed) / "model.safetensors").read_bytes()
        for name, seed in (("first", 0), ("same", 0), ("other", 1))
    )
    assert first == same
    assert first != other


def test_an_unknown_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="falcon_h1"):
        make_tiny_model("gpt2", tmp_path)
    assert "falcon_h1" in FAMILIES
