"""SGLang's server whose ranks write each decision of their cache to a file of their own.

The folder is named by ``RECORD_FOLDER``; a rank's file is named by its process.
"""

from __future__ import annotations

import os
import runpy
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglang_marconi.cache.candidates import EvictionCandidates

RECORD_FOLDER = "MARCONI_TEST_RECORD_FOLDER"
VICTIMS = ("state_victim", "leaf_victim")
CHANGES = ("touch", "node_added", "node_removed", "state_admitted", "state_evicted", "leaf_added", "leaf_removed")
CLEARED = "clear"

_files: dict[int, Any] = {}


def write(decision: str, node: Any = None) -> None:
    process = os.getpid()
    if process not in _files:
        _files[process] = (Path(os.environ[RECORD_FOLDER]) / str(process)).open("w", buffering=1, encoding="utf-8")
    # The same node has the same id and the same tokens on every rank.
    named = "" if node is None else f" {node.id} {len(node.key)} {zlib.crc32(bytes(node.key.token_ids)):08x}"
    _files[process].write(f"{decision}{named}\n")


def record(method: str) -> None:
    original: Callable[..., Any] = getattr(EvictionCandidates, method)

    def recorded(candidates: EvictionCandidates, *nodes: Any) -> Any:
        result = original(candidates, *nodes)
        write(method, result if method in VICTIMS else nodes[0] if nodes else None)
        return result

    setattr(EvictionCandidates, method, recorded)


if __name__ == "__main__":
    for name in (*VICTIMS, *CHANGES, CLEARED):
        record(name)
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
