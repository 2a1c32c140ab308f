"""Real servers on tiny models, started once and shared by the tests that can."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang", reason="the server is SGLang's")

from sglang_marconi.platform.conversations import read_metrics
from sglang_marconi.platform.models import make_tiny_model
from sglang_marconi.platform.server import TinyServer

#: SGLang's own checks on every idle step and every batch: a leaked or doubly freed slot ends the server.
STRICT = {
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_ENABLE_TREE_CACHE_SANITY_CHECK": "1",
}
STRATEGIES: dict[str, dict[str, object]] = {
    "no_buffer": {"mamba-radix-cache-strategy": "no_buffer", "disable-overlap-schedule": True},
    "extra_buffer": {"mamba-radix-cache-strategy": "extra_buffer"},
}


class Tokens:
    """Runs of random token ids, all different; the seed is the test's."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def __call__(self, count: int) -> list[int]:
        return [self._rng.randrange(10, 240) for _ in range(count)]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a family's tiny model, made on first use."""
    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            made[family] = make_tiny_model(family, tmp_path_factory.mktemp(family))
        return made[family]

    return make


ServerFactory = Callable[..., TinyServer]


@pytest.fixture(scope="module")
def serve(tiny_model: Callable[[str], Path]) -> Iterator[ServerFactory]:
    """Starts a server, or returns the running one; one runs at a time, and none outlives its module."""
    running: dict[tuple[Any, ...], TinyServer] = {}

    def get(
        family: str = "falcon_h1",
        strategy: str | None = "no_buffer",
        backend: str | None = "marconi",
        flags: Mapping[str, object] | None = None,
    ) -> TinyServer:
        key = (family, strategy, backend, repr(sorted((flags or {}).items())))
        if key not in running:
            while running:
                running.popitem()[1].stop()
            chosen = {**(STRATEGIES[strategy] if strategy else {}), "enable-metrics": True, **(flags or {})}
            server = TinyServer(tiny_model(family), backend=backend, flags=chosen, environment=STRICT)
            running[key] = server.__enter__()
        server = running[key]
        server.flush()
        return server

    yield get
    for server in running.values():
        server.stop()


def marconi(server: TinyServer) -> dict[str, Any]:
    """What the cache says about itself in ``/server_info``."""
    state: dict[str, Any] = server.server_info()["internal_states"][0]["marconi"]
    return state


def check_pools_whole(server: TinyServer) -> None:
    """Raises unless every slot of the idle server, of each of its replicas, is free or cached."""
    for state in server.server_info()["internal_states"]:
        for name, pool in state["marconi"]["pools"].items():
            assert pool["locked"] == 0, f"{name}: {pool}"
            assert pool["free"] + pool["cached"] == pool["total"], f"{name}: {pool}"
    assert read_metrics(server.url)["sglang:num_running_reqs"] == 0
