"""SGLang's server whose ranks write what happens to their radix trees, each to a file of its own.

The folder is named by the environment; a rank's file is named by its process.
"""

from __future__ import annotations

import functools
import os
import runpy
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglang_marconi.compat import LRURefreshPhase, MambaComponent, UnifiedTreeCore

RECORD_FOLDER = "MARCONI_TEST_RECORD_FOLDER"
CLEARED = "cleared"

_files: dict[int, Any] = {}


def write(event: str, node: Any = None) -> None:
    process = os.getpid()
    if process not in _files:
        _files[process] = (Path(os.environ[RECORD_FOLDER]) / str(process)).open("w", buffering=1, encoding="utf-8")
    # The same node has the same id and the same tokens on every rank.
    named = "" if node is None else f" {node.id} {len(node.key)} {zlib.crc32(bytes(node.key.token_ids)):08x}"
    _files[process].write(f"{event}{named}\n")


def after(owner: type, method: str, report: Callable[..., None]) -> None:
    """Call ``report(result, self, *args, **kwargs)`` after each call of the method."""
    original = getattr(owner, method)

    @functools.wraps(original)  # the cache checks the parameters of what it wraps
    def reported(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        report(result, *args, **kwargs)
        return result

    setattr(owner, method, reported)


def report_hit(_result: Any, _component: Any, phase: Any, node: Any, root_node: Any) -> None:
    if phase is LRURefreshPhase.MATCH_END and node is not root_node:
        write("hit", node)


def report_evicted_state(freed: tuple[int, int], _component: Any, node: Any, *_args: Any, **_kwargs: Any) -> None:
    if freed[0]:
        write("state evicted", node)


if __name__ == "__main__":
    after(UnifiedTreeCore, "reset", lambda *_: write(CLEARED))
    after(UnifiedTreeCore, "_add_new_node", lambda node, *_, **__: write("added", node))
    after(UnifiedTreeCore, "_split_node", lambda parts, *_: write("split", parts[0]))
    after(UnifiedTreeCore, "_remove_leaf_from_parent", lambda _, __, node: write("removed", node))
    after(MambaComponent, "refresh_lru", report_hit)
    after(MambaComponent, "commit_insert_component_data", lambda _, __, node, *___: write("state admitted", node))
    after(MambaComponent, "evict_component", report_evicted_state)
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
