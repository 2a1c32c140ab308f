"""Records what a live cache is asked for, for a replay of the same requests."""

from __future__ import annotations

import dataclasses
from array import array
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sglang_marconi._core import UtilityOrder, WindowRecorder
from sglang_marconi.cache.tree_core import Node
from sglang_marconi.compat import ComponentType
from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PrefixCost

_NAMESPACE_STRIDE = 0x9E3779B1


@dataclasses.dataclass(frozen=True)
class LiveSizes:
    """The pools that a replay has to live with, as SGLang made them."""

    #: In place of a chunk's size when prefills are computed whole.
    UNCHUNKED: ClassVar[int] = 2**31 - 1

    kv_tokens: int
    states: int
    chunked_prefill_size: int
    grid: int
    slots_per_request: int


class LiveRecorder:
    """Feeds a native recorder from SGLang's tree and requests.

    Requests are known by their row in SGLang's request pool. Tokens stay in this process's memory, at most
    ``tuner_memory_mb`` of them, and go when the window closes.
    """

    def __init__(self, config: MarconiConfig, cost: PrefixCost, sizes: LiveSizes) -> None:
        self.native = WindowRecorder(
            **dataclasses.asdict(cost),
            kv_tokens=sizes.kv_tokens,
            states=sizes.states,
            # Ends of requests off the page's end are not simulated: with pages too, each gets a state.
            page_tokens=1,
            chunk_tokens=sizes.chunked_prefill_size,
            grid_tokens=sizes.grid,
            slots_per_request=sizes.slots_per_request,
            min_branch_gain_tokens=config.min_branch_gain,
            admits_prompt_end=config.admit_prompt_end == "always",
            max_bytes=config.tuner_memory_mb * 2**20,
        )
        self._namespaces: dict[tuple[str | None, str | None], int] = {(None, None): 0}

    def open(self, root: Node, order: UtilityOrder) -> None:
        """Begin a window at the tree as it is."""
        nodes: list[tuple[int, int, int, int, bool]] = []
        edges: list[npt.NDArray[np.uint32]] = []
        pending = list(root.children.values())
        while pending:
            node = pending.pop()
            key = node.key
            is_first = node.parent is root
            edge = self._as_uint32(key.raw_token_ids(), (key.extra_key, key.cache_salt) if is_first else (None, None))
            has_state = node.component_data[ComponentType.MAMBA].value is not None
            nodes.append((node.id, node.parent.id, len(edge), order.last_access(node.id), has_state))
            edges.append(edge)
            pending.extend(node.children.values())
        tokens = np.concatenate(edges) if edges else np.empty(0, np.uint32)
        self.native.open(nodes, tokens, order.clock)

    def request_started(self, req: Any) -> None:
        """The request's prompt is being computed."""
        prompt = self._as_uint32(req.origin_input_ids, (req.extra_key, req.cache_salt or None))
        self.native.request_started(req.kv.req_pool_idx, prompt)

    def request_finished(self, req: Any) -> None:
        """The request's reply is complete; the tree takes it."""
        self.native.request_finished(req.kv.req_pool_idx, self._as_uint32(req.output_ids, (None, None)))

    def _as_uint32(self, tokens: array[int], namespace: tuple[str | None, str | None]) -> npt.NDArray[np.uint32]:
        """Tokens as the core takes them; another namespace shares no first token with this one."""
        converted = np.asarray(tokens, dtype=np.int64).astype(np.uint32)
        number = self._namespaces.setdefault(namespace, len(self._namespaces))
        if number and len(converted):
            converted[0] = (int(converted[0]) + number * _NAMESPACE_STRIDE) % 2**32
        return converted
