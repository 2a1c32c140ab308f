"""SGLang's server with recurrent states that are off by 2 % where a request resumes them."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import Any

from sglang_marconi.platform.kernels import bind, causal_conv1d, gated_delta, mamba2

FACTOR = 1.02


def scan_from_wrong_states(*args: Any, initial_states: Any = None, **kwargs: Any) -> Any:
    wrong = None if initial_states is None else initial_states * FACTOR
    return mamba2.mamba_chunk_scan_combined(*args, initial_states=wrong, **kwargs)


def delta_from_wrong_states(*args: Any, initial_state: Any, initial_state_indices: Any, **kwargs: Any) -> Any:
    # A slot that is not resumed holds zeros.
    initial_state[initial_state_indices] *= FACTOR
    return gated_delta.chunk_gated_delta_rule(
        *args, initial_state=initial_state, initial_state_indices=initial_state_indices, **kwargs
    )


def convolve_from_wrong_windows(*args: Any, conv_states: Any, cache_indices: Any, **kwargs: Any) -> Any:
    conv_states[cache_indices] *= FACTOR
    return causal_conv1d.causal_conv1d_fn(*args, conv_states=conv_states, cache_indices=cache_indices, **kwargs)


def corrupt(original: Callable[..., Any], wrong: Callable[..., Any]) -> None:
    (seam,) = (seam for seam, kernel in bind.REPLACEMENTS.items() if kernel is original)
    bind.REPLACEMENTS[seam] = wrong


if __name__ == "__main__":
    corrupt(mamba2.mamba_chunk_scan_combined, scan_from_wrong_states)
    corrupt(gated_delta.chunk_gated_delta_rule, delta_from_wrong_states)
    corrupt(causal_conv1d.causal_conv1d_fn, convolve_from_wrong_windows)
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
