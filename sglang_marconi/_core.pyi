"""Native core of sglang-marconi."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

class UtilityIndex:
    """Which cached node to evict: the exact minimum of Marconi's utility over the unlocked nodes.

    ``S(n) = recency(n) + alpha * efficiency(n)``, both min-max normalised to [0, 1] over the current
    candidates, that is the unlocked nodes (Marconi, section 4.2). A term that is equal for all candidates
    drops out. Ties: older last access first, then the lower id.

    ``recency="linear"`` takes the time stamp itself and is compared in real arithmetic, without rounding.
    ``recency="inverse_age"`` takes ``1 / (now - last_access)`` and is compared in doubles, computed as
    ``(inverse - inverse_min) / (inverse_max - inverse_min) + alpha * ((e - e_min) / (e_max - e_min))``.

    A change takes O(log n), O(log^2 n) at worst. A victim takes O(log n), in the inverse-age form O(n) at
    worst: when efficiency falls with time along the very curve of equal scores. A refused argument raises and
    changes nothing:
    ValueError for a value out of its range or an id held already, KeyError for an id that is not held,
    TypeError for a type or an integer that does not fit (ids: int64, last_access and now: uint64).
    """

    def __init__(self, alpha: float = 0.0, recency: Literal["linear", "inverse_age"] = "linear") -> None: ...
    @property
    def alpha(self) -> float: ...
    @property
    def recency(self) -> Literal["linear", "inverse_age"]: ...
    def set_alpha(self, alpha: float) -> None:
        """Weigh efficiency against recency anew: finite, >= 0; 0 is LRU. O(1)."""

    def set_recency_form(self, recency: Literal["linear", "inverse_age"]) -> None:
        """Change the form of recency. O(1)."""

    def insert(self, id: int, last_access: int, efficiency: float) -> None:
        """Add an unlocked node.

        Args:
            id: >= 0 and not held.
            last_access: logical clock, any order.
            efficiency: FLOPs per byte, finite, >= 0.
        """

    def remove(self, id: int) -> None:
        """Forget a node, locked or not."""

    def clear(self) -> None:
        """Forget all nodes."""

    def touch(self, id: int, last_access: int) -> None:
        """Set a node's last access, locked or not."""

    def set_efficiency(self, id: int, efficiency: float) -> None:
        """Set a node's FLOPs per byte, locked or not."""

    def update(self, id: int, last_access: int, efficiency: float) -> None:
        """Set both in one move."""

    def lock(self, id: int) -> bool:
        """Take a node out of the candidates; it stays a member. Returns whether it was unlocked."""

    def unlock(self, id: int) -> bool:
        """Make a node a candidate again. Returns whether it was locked."""

    def is_locked(self, id: int) -> bool: ...
    def contains(self, id: int) -> bool: ...
    def __contains__(self, id: int) -> bool: ...
    def last_access(self, id: int) -> int: ...
    def efficiency(self, id: int) -> float: ...
    def size(self) -> int:
        """Number of members, locked ones included."""

    def __len__(self) -> int: ...
    def candidates(self) -> int:
        """Number of unlocked members."""

    def victim(self, now: int = 0) -> int | None:
        """Answer the id of the candidate with the least score, None without candidates.

        Args:
            now: logical clock, later than every candidate's last access; the linear form ignores it.

        Raises:
            ValueError: form inverse_age and now is not later than a candidate's last access.
        """

    def pop_victim(self, now: int = 0) -> int | None:
        """victim(), removed from the index."""

    def scores(self, now: int = 0) -> list[tuple[int, float]]:
        """Every candidate's id and rounded score, in (last access, id) order. O(n): for tests and metrics."""

class UtilityOrder:
    """Marconi's order of victims in a radix tree with two pools (Marconi, section 4.2).

    The tree reports what happens to its nodes; ``S = recency + alpha * efficiency`` ranks three sets:

    - ``states``: nodes that hold a state and have at most one child;
    - ``shared_states``: nodes that hold a state and have more children, taken only when no other is left;
    - ``leaves``: nodes without children that no request uses.

    Time is logical: new nodes, admissions and uses advance it by one each. Node ids are >= 0 and rise in the
    order in which nodes are made; a parent that is not known is the root. KeyError for another unknown node,
    ValueError for a node that is known already.
    """

    def __init__(
        self,
        *,
        linear_flops_per_token: float,
        quadratic_flops_per_token_squared: float,
        kv_bytes_per_token: int,
        state_bytes: int,
        alpha: float = 0.0,
        recency: Literal["linear", "inverse_age"] = "linear",
        bytes: Literal["own", "path"] = "own",
    ) -> None: ...
    def set_form(self, alpha: float, recency: str, bytes: str) -> None:
        """Weigh anew. O(1), but O(n log n) for another form of bytes."""

    @property
    def clock(self) -> int: ...
    def clear(self) -> None:
        """Forget every node; the clock goes on."""

    def node_added(self, node: int, parent: int, tokens: int) -> None:
        """A node without children hangs below ``parent``, ``tokens`` further."""

    def node_split(self, prefix: int, suffix: int, suffix_tokens: int) -> None:
        """``prefix`` is new above ``suffix``, which keeps ``suffix_tokens`` of its edge, its state and children."""

    def node_removed(self, node: int) -> None:
        """The node left the tree; its state and its leaf entry went before."""

    def state_admitted(self, node: int) -> None: ...
    def state_evicted(self, node: int) -> None: ...
    def set_state_locked(self, node: int, is_locked: bool) -> None:
        """Whether requests hold the node for its state; it may hold none."""

    def leaf_added(self, node: int) -> None: ...
    def leaf_removed(self, node: int) -> None: ...
    def touch(self, node: int) -> None:
        """The node's state was used, or came once more."""

    def state_victim(self) -> int | None:
        """The node whose state is worth least, None when all are locked."""

    def leaf_victim(self) -> int | None:
        """The leaf whose KV and state are worth least, None when there is none."""

    def __len__(self) -> int:
        """Nodes, without the root."""

    def __contains__(self, node: int) -> bool: ...
    @property
    def states(self) -> int:
        """States that the tree holds, locked ones included."""

    def last_access(self, node: int) -> int: ...
    def is_state_locked(self, node: int) -> bool: ...
    def efficiency(self, node: int) -> float:
        """FLOPs that losing the node costs the next request per byte that evicting it frees; 0 without a state."""

    def index(self, name: Literal["states", "shared_states", "leaves"]) -> UtilityIndex:
        """One of the three sets: to look at, not to change."""

class Trace:
    """Requests over a shared prefix tree: read-only, without tokens, shared by all replays."""

    def __len__(self) -> int:
        """Number of requests."""

    @property
    def prompt_tokens(self) -> int:
        """Of all requests."""

    def prompt_lengths(self) -> npt.NDArray[np.uint32]:
        """Tokens of each request's prompt."""

    def reply_lengths(self) -> npt.NDArray[np.uint32]:
        """Tokens of each request's reply."""

    def arrivals_s(self) -> npt.NDArray[np.float64]:
        """Seconds at which each request arrives."""

    @property
    def nodes(self) -> int:
        """Of the prefix tree: points where sequences end or part, and the root."""

    @property
    def memory_bytes(self) -> int: ...

class PrefixHasher:
    """Keyed hashes of prefixes: SipHash-2-4 of the hash before and the token.

    Args:
        key0, key1: halves of the 128-bit key.
    """

    def __init__(self, key0: int, key1: int) -> None: ...
    def hash(self, tokens: npt.NDArray[np.uint32], seed: int) -> tuple[npt.NDArray[np.uint32], int]:
        """A 32-bit hash of the prefix up to each token, and the seed of what follows (64 bits)."""

class TokenTraceBuilder:
    """Builds a trace from requests given as tokens, in the order in which they are served.

    Arrays are contiguous uint32. TypeError for others, ValueError for a request of more than 2^24 tokens.
    """

    def __init__(self) -> None: ...
    def add(self, prompt: npt.NDArray[np.uint32], reply: npt.NDArray[np.uint32], arrival_s: float = 0.0) -> int:
        """Add a request with its whole prompt; answer its number."""

    def add_continuation(
        self,
        base: int,
        keep_tokens: int,
        added: npt.NDArray[np.uint32],
        reply: npt.NDArray[np.uint32],
        arrival_s: float = 0.0,
    ) -> int:
        """Add a prompt: the first tokens of an earlier prompt and reply, then ``added``.

        Raises:
            ValueError: ``base`` is no earlier request, or has fewer than ``keep_tokens`` tokens.
        """

    def match_tokens(self, prompt: npt.NDArray[np.uint32]) -> int:
        """Leading tokens of a prompt that the requests so far hold."""

    def __len__(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def build(self) -> Trace:
        """The trace of the requests so far."""

class BlockTraceBuilder:
    """Builds a trace from block hashes of prompts; equal prefixes of hashes mean equal tokens.

    A reply is known only from a later prompt that repeats it: the next request of the session that
    starts with all whole blocks of a prompt and is at least as long as prompt and reply is taken to
    repeat both, if the prompt's last whole block was new.
    """

    def __init__(self, block_tokens: int) -> None: ...
    def add(
        self,
        whole_blocks: npt.NDArray[np.uint64],
        prompt_tokens: int,
        reply_tokens: int,
        session: int = -1,
        arrival_s: float = 0.0,
    ) -> int:
        """Add a request; answer its number.

        Args:
            whole_blocks: contiguous uint64, at most ``prompt_tokens // block_tokens``.
            prompt_tokens: the whole prompt.
            reply_tokens: the reply.
            session: requests of other sessions do not repeat the reply; -1 where it is not known.
            arrival_s: seconds.
        """

    def __len__(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def build(self) -> Trace:
        """The trace of the requests so far."""

class LayerwiseCost:
    """FLOPs and bytes of a prefix; the parts by layer serve the preset paper-artifact alone."""

    def __init__(
        self,
        *,
        linear_flops_per_token: float,
        quadratic_flops_per_token_squared: float,
        kv_bytes_per_token: int,
        state_bytes: int,
        ssm_flops_per_token: float = 0.0,
        attention_linear_flops: float = 0.0,
        attention_quadratic_flops: float = 0.0,
        attention_layers: float = 0.0,
        mlp_flops_per_token: float = 0.0,
        mlp_layers: float = 0.0,
    ) -> None: ...

class ReplayOptions:
    """One policy with one cache. ValueError for what cannot be."""

    def __init__(
        self,
        policy: str,
        capacity_bytes: int,
        cost: LayerwiseCost,
        *,
        alpha: float = 0.0,
        tunes_alpha: bool = False,
        preset: str = "default",
        recency: str = "linear",
        bytes: str = "own",
        min_branch_gain_tokens: int = 32,
        admits_prompt_end: bool = False,
        budget: str = "bytes",
        kv_tokens: int = 0,
        states: int = 0,
        page_tokens: int = 1,
        chunk_tokens: int = 8192,
        grid_tokens: int = 1,
        track_interval_tokens: int = 0,
        slots_per_request: int = 1,
        prefill_s_per_token: float = 0.0,
        decode_s_per_token: float = 0.0,
        max_running_requests: int = 256,
        tuning: TuningOptions = ...,
        objective: Objective = ...,
    ) -> None: ...

class ReplayResult:
    """What became of each request: one array per quantity, in the order of the requests."""

    def __len__(self) -> int: ...
    @property
    def alpha(self) -> float:
        """At the end of the replay."""

    @property
    def tuned_after(self) -> int:
        """Requests served when alpha was tuned, -1 if never."""

    @property
    def total_hit_tokens(self) -> float:
        """Of all requests; fractional for a bound."""

    @property
    def total_flops_saved(self) -> float: ...
    @property
    def windows(self) -> list[dict[str, Any]]:
        """Budget sglang: what was tuned on, and each form's score, in the order of ``tuning_forms()``."""

    @property
    def hit_tokens(self) -> npt.NDArray[np.uint32]: ...
    @property
    def never_seen_tokens(self) -> npt.NDArray[np.uint32]: ...
    @property
    def not_admitted_tokens(self) -> npt.NDArray[np.uint32]: ...
    @property
    def evicted_tokens(self) -> npt.NDArray[np.uint32]: ...
    @property
    def in_flight_tokens(self) -> npt.NDArray[np.uint32]: ...
    @property
    def flops_saved(self) -> npt.NDArray[np.float64]: ...
    @property
    def kv_bytes(self) -> npt.NDArray[np.int64]:
        """Held after the request."""

    @property
    def state_bytes(self) -> npt.NDArray[np.int64]:
        """Held after the request."""

    @property
    def leaf_victims(self) -> npt.NDArray[np.uint32]: ...
    @property
    def inner_victims(self) -> npt.NDArray[np.uint32]: ...
    @property
    def is_cached(self) -> npt.NDArray[np.bool_]: ...

class Search:
    """Many replays at once in native threads, without the GIL, over one shared trace.

    Starts at once. The results do not depend on the number of threads.
    """

    def __init__(self, trace: Trace, runs: Sequence[ReplayOptions], threads: int) -> None: ...
    def cancel(self) -> None:
        """Stop soon; results are cut short."""

    @property
    def is_done(self) -> bool: ...
    @property
    def is_cancelled(self) -> bool: ...
    @property
    def served_requests(self) -> int:
        """Of all runs so far."""

    @property
    def total_requests(self) -> int: ...
    def results(self) -> list[ReplayResult]:
        """Wait for the end; in the order of the runs."""

class PoolCache:
    """SGLang's two pools, simulated step by step: to compare with a live cache.

    Requests are named by their number in the trace. ValueError for a step that does not follow.
    """

    def __init__(self, trace: Trace, options: ReplayOptions) -> None: ...
    def arrive(self, request: int) -> None:
        """Look the request up; a hit takes a state slot."""

    def start(self, request: int) -> None:
        """Compute the prompt of a request that arrived."""

    def finish(self, request: int) -> None:
        """Decode the reply of a request that started; it leaves."""

    def abort(self, request: int) -> None:
        """Drop a request that arrived and did not start."""

    def has_room_for(self, request: int) -> bool:
        """Whether a request that has not arrived could run to its end now."""

    def hit_tokens(self, request: int) -> int: ...
    @property
    def free_kv_tokens(self) -> int: ...
    @property
    def free_states(self) -> int: ...
    def nodes(self) -> list[tuple[int, bool]]:
        """Depth in tokens and whether it holds a state, of every node, rising."""

    def take_events(self) -> list[tuple[str, list[int]]]:
        """What the tree told its order of victims and was answered since the last call."""

class TuningOptions:
    """When windows open and close. ValueError for what cannot be."""

    def __init__(
        self,
        *,
        bootstrap_multiplier: float = 5.0,
        min_window_requests: int = 100,
        max_window_requests: int = 5000,
        retune_interval_requests: int = 2000,
        hit_rate_drop: float = 0.25,
    ) -> None: ...

class Objective:
    """What a window is scored by, and by how much of it a form must beat the present one."""

    def __init__(self, *, counts_flops: bool = False, min_gain: float = 0.02) -> None: ...

class TuningSchedule:
    """When to open a window, and when it holds enough requests to tune on (Marconi, section 4.3)."""

    def __init__(self, options: TuningOptions) -> None: ...
    def request_started(self, hit_tokens: int, prompt_tokens: int, has_evicted: bool) -> Literal["", "open", "close"]:
        """What to do after a request; ``has_evicted``: whether anything was ever evicted."""

    def close_early(self) -> None:
        """The window closes after the next request."""

    @property
    def is_collecting(self) -> bool: ...
    @property
    def requests(self) -> int: ...
    @property
    def first_eviction(self) -> int:
        """Requests before the first eviction, 0 while there was none."""

    @property
    def window_requests(self) -> int: ...
    @property
    def collected_requests(self) -> int: ...

class RecordedWindow:
    """A closed window: all that its replays need."""

    def __len__(self) -> int:
        """Steps: requests that started, finished or were dropped."""

class WindowRecorder:
    """Records what a live cache was asked for.

    Requests are named by a number of the caller's, which may be used again once they left. Arrays are
    contiguous uint32.
    """

    def __init__(
        self,
        *,
        linear_flops_per_token: float,
        quadratic_flops_per_token_squared: float,
        kv_bytes_per_token: int,
        state_bytes: int,
        kv_tokens: int,
        states: int,
        page_tokens: int,
        chunk_tokens: int,
        grid_tokens: int,
        slots_per_request: int,
        min_branch_gain_tokens: int,
        admits_prompt_end: bool,
        max_bytes: int,
    ) -> None: ...
    def open(
        self, nodes: Sequence[tuple[int, int, int, int, bool]], edge_tokens: npt.NDArray[np.uint32], clock: int
    ) -> None:
        """Begin a window at a live tree.

        Args:
            nodes: id, parent's id, tokens of the edge, last access, whether it holds a state; parents first. A
                parent that is not among them is the root.
            edge_tokens: the tokens of the nodes' edges, one after the other.
            clock: of the order of victims.

        Raises:
            ValueError: the nodes make no tree.
        """

    def request_started(self, number: int, prompt: npt.NDArray[np.uint32]) -> None:
        """A prompt is computed; a number that is still in use leaves first."""

    def request_finished(self, number: int, reply: npt.NDArray[np.uint32]) -> None:
        """A request leaves with its reply; one that started before the window is passed over."""

    def request_dropped(self, number: int) -> None: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    def close(self) -> RecordedWindow:
        """The window; the recorder is empty."""

class WindowSearch:
    """Scores every form of ``tuning_forms()`` on a recorder's window, in threads of low priority.

    Starts at once; the scores do not depend on the number of threads.
    """

    def __init__(self, recorder: WindowRecorder, threads: int) -> None: ...
    def cancel(self) -> None: ...
    @property
    def is_done(self) -> bool: ...
    def scores(self) -> list[tuple[float, float, float, float]]:
        """Waits for the end: by form hit tokens and FLOPs saved, and both in the window's later half."""

def tuning_forms() -> list[tuple[float, str, str]]:
    """Alpha, recency and bytes of the forms that are tried: alpha 0 first, then rising."""

def choose_form(scores: Sequence[tuple[float, float, float, float]], present: int, objective: Objective) -> int:
    """The best form of those that beat the present one by the margin, on the window and on its later half.

    Without one the present form, or alpha 0 if that would have been better.
    """
