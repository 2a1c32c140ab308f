"""Options of the server that the cache has to get along with: namespaces, sessions, KV events, schedule policies."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import zmq
from conftest import STRATEGIES, ServerFactory, Tokens, check_pools_whole, marconi
from random_requests import LOGPROB_TOLERANCE, RandomRequests, check_exact
from safetensors.torch import save_file
from sglang.srt.disaggregation.kv_events import AllBlocksCleared, BlockRemoved, KVEventBatch

from sglang_marconi.platform.server import TinyServer

#: Of the tiny families the one with LoRA in SGLang.
FAMILY = "nemotron_h"
LORA_TARGET = "o_proj"
REQUESTS = 40
PRESSURE: dict[str, object] = {"max-total-tokens": 2048, "max-mamba-cache-size": 24, "chunked-prefill-size": 256}
#: What differs between the strategies' servers, so that both halves are tried.
POLICIES: dict[str, dict[str, object]] = {
    "no_buffer": {"schedule-policy": "lpm", "enable-mixed-chunk": True},
    "extra_buffer": {"schedule-policy": "hrrn", "page-size": 16},
}


@pytest.fixture(scope="module", params=sorted(STRATEGIES))
def strategy(request: pytest.FixtureRequest) -> str:
    """Each strategy in turn; the tests of one share its server."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the servers publish KV events."""
    folder = tmp_path_factory.mktemp("events")
    return {"publisher": "zmq", "endpoint": f"ipc://{folder}/live", "replay_endpoint": f"ipc://{folder}/replay"}


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> Path:
    """A LoRA adapter of the model's attention output: the layers behind it compute other states."""
    folder = tmp_path_factory.mktemp("adapter")
    config = json.loads((tiny_model(FAMILY) / "config.json").read_text(encoding="utf-8"))
    layer, width, rank = config["layers_block_type"].index("attention"), config["hidden_size"], 4
    name = f"base_model.model.backbone.layers.{layer}.mixer.{LORA_TARGET}"
    generator = torch.Generator().manual_seed(25)
    down, up = (torch.randn(shape, generator=generator) for shape in ((rank, width), (width, rank)))
    save_file({f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}, folder / "adapter_model.safetensors")
    described = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": [LORA_TARGET], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(described), encoding="utf-8")
    return folder


def lora_flags(adapter: Path) -> dict[str, object]:
    return {
        "enable-lora": True,
        "lora-paths": f"adapted={adapter}",
        "lora-target-modules": LORA_TARGET,
        "max-lora-rank": 4,
        "lora-backend": "torch_native",
    }


@pytest.fixture
def server(serve: ServerFactory, strategy: str, events: dict[str, str], adapter: Path) -> TinyServer:
    """A server with everything on that the tests of this file need."""
    flags = {**PRESSURE, **POLICIES[strategy], "enable-streaming-session": True, "kv-events-config": events}
    return serve(FAMILY, strategy, flags=flags | lora_flags(adapter))


def ask(server: TinyServer, prompt: list[int], **fields: object) -> dict[str, Any]:
    """One greedy request of two tokens with further fields; returns what the server says about it."""
    sampling = {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True}
    body = {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True, **fields}
    answer = server.request("/generate", body)
    meta: dict[str, Any] = {"output_ids": answer["output_ids"], **answer["meta_info"]}
    return meta


def logprobs(answer: dict[str, Any]) -> list[float]:
    return [entry[0] for entry in answer["output_token_logprobs"]]


def test_namespaces_share_nothing(server: TinyServer) -> None:
    tokens = Tokens(21)
    shared = tokens(160)
    namespaces: list[dict[str, object]] = [
        {},
        {"lora_path": "adapted"},
        {"cache_salt": "a"},
        {"cache_salt": "b"},
        {"extra_key": "a"},
        {"cache_salt": "a", "extra_key": "a"},
    ]
    hits: dict[str, list[int]] = {str(fields): [] for fields in namespaces}
    for _ in range(3):
        for fields in namespaces:
            hits[str(fields)].append(ask(server, shared + tokens(40), **fields)["cached_tokens"])
    # Each namespace has to learn the shared prefix by itself, and does.
    assert all(first == 0 and third >= 128 for first, _second, third in hits.values()), hits
    check_pools_whole(server)


def test_an_adapter_resumes_states_of_its_own(server: TinyServer) -> None:
    tokens = Tokens(26)
    history = tokens(160)
    for adapter in (None, "adapted"):
        turns = [history + tokens(20) for _ in range(3)]
        warm = [ask(server, turn, lora_path=adapter) for turn in turns][-1]
        cold = ask(server, turns[-1], lora_path=adapter, logprob_start_len=0)
        assert warm["cached_tokens"] >= 128 and cold["cached_tokens"] == 0
        assert logprobs(warm) == pytest.approx(logprobs(cold), abs=LOGPROB_TOLERANCE)
    check_pools_whole(server)


def test_session_goes_on_from_any_of_its_requests(server: TinyServer) -> None:
    tokens = Tokens(27)
    session = server.request("/open_session", {"capacity_of_str_len": 10_000})
    first = ask(server, tokens(160), session_params={"id": session})
    hits = [
        ask(server, tokens(20), session_params={"id": session, "rid": first["id"]})["cached_tokens"] for _ in range(3)
    ]
    assert hits[-1] >= 128
    server.request("/close_session", {"session_id": session})
    check_pools_whole(server)


def test_random_requests_get_the_answers_they_get_uncached(server: TinyServer, strategy: str) -> None:
    before = marconi(server)["stats"]["states_evicted"]
    served = RandomRequests(seed=22).send(server, REQUESTS)
    check_pools_whole(server)
    assert marconi(server)["stats"]["states_evicted"] > before
    assert sum(answer.cached_tokens for _, answer in served) > 10 * REQUESTS
    check_exact(server, served)


def test_streaming_session_keeps_its_state_and_gives_it_back(server: TinyServer) -> None:
    tokens = Tokens(23)
    session = server.request("/open_session", {"capacity_of_str_len": 10_000, "streaming": True})
    history: list[int] = []
    for turn in range(3):
        new = tokens(80)
        answer = ask(server, new, session_params={"id": session})
        history += new
        # All but the reply's last token, whose KV and state the next turn computes.
        assert answer["cached_tokens"] == (0 if turn == 0 else len(history) - len(new) - 1)
        cold = ask(server, history, logprob_start_len=0)
        assert cold["cached_tokens"] == 0
        assert logprobs(answer) == pytest.approx(logprobs(cold), abs=LOGPROB_TOLERANCE)
        history += answer["output_ids"]
    server.request("/close_session", {"session_id": session})
    server.flush()
    check_pools_whole(server)


def published(endpoint: str) -> Iterator[Any]:
    """Every event that the server has published, from the first."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(endpoint)
        socket.send_multipart((b"", (0).to_bytes(8, "big")))
        while True:
            assert socket.poll(30_000), "the server does not replay its KV events"
            payload = socket.recv_multipart()[-1]
            if not payload:
                return
            yield from msgspec.msgpack.decode(payload, type=KVEventBatch).events


def cached_tokens(endpoint: str) -> int:
    """How many tokens are cached, as a router learns it from the events."""
    block_tokens: dict[int, int] = {}
    for event in published(endpoint):
        if isinstance(event, AllBlocksCleared):
            block_tokens.clear()
        elif isinstance(event, BlockRemoved):
            for block in event.block_hashes:
                del block_tokens[block]
        else:
            block_tokens |= dict.fromkeys(event.block_hashes, event.block_size)
    return sum(block_tokens.values())


def test_kv_events_reach_a_router(server: TinyServer, events: dict[str, str]) -> None:
    RandomRequests(seed=24).send(server, REQUESTS)
    held = marconi(server)["pools"]["kv"]["cached"]
    deadline = time.monotonic() + 30
    while cached_tokens(events["replay_endpoint"]) != held:
        assert time.monotonic() < deadline, f"{held} tokens are cached"
