"""The platform ``marconi_cpu``: SGLang's own server, scheduler, pools and radix cache on CPU tensors."""

from __future__ import annotations

import os
from typing import Any

import torch
from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform

from sglang_marconi.platform import torch_cpu
from sglang_marconi.platform.kernels import bind

# Flags that have one working value here. A flag that the user gave wins.
SERVER_DEFAULTS = {
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
}
# SGLang's name for a dtype in --dtype, where it differs from that in SGLANG_MAMBA_CONV_DTYPE.
CONV_DTYPE_OF = {"half": "float16", "float": "float32"}


class MarconiCpuPlatform(CpuDeviceMixin, SRTPlatform):
    """SGLang on a machine without an accelerator, with torch reference kernels in place of Triton's.

    It declares no Triton, so that SGLang itself takes its torch paths for allocation and indices; the kernels that
    have no such path are bound in `init_backend`.
    """

    _enum = PlatformEnum.OOT
    device_name = "marconi_cpu"
    capabilities = PlatformCapabilities(supports_triton=False)

    def __init__(self) -> None:
        torch_cpu.install()

    def apply_server_args_defaults(self, server_args: Any) -> None:
        for name, value in SERVER_DEFAULTS.items():
            if getattr(server_args, name) is None:
                setattr(server_args, name, value)
        # "auto" would serve float32 weights in float16, too coarse to tell a wrong state from a rounding.
        if server_args.dtype == "auto":
            server_args.dtype = "float32"
        # The convolution window holds inputs of the model: SGLang copies them there without a cast, and its default
        # of bfloat16 would round those of a float32 model. Read by the workers, which inherit the environment.
        os.environ.setdefault("SGLANG_MAMBA_CONV_DTYPE", CONV_DTYPE_OF.get(server_args.dtype, server_args.dtype))
        ranks = server_args.tp_size * server_args.pp_size * server_args.dp_size
        if ranks > 1:
            # Without a list of cores for each rank SGLang refuses more ranks than there are NUMA nodes.
            os.environ.setdefault("SGLANG_CPU_OMP_THREADS_BIND", _cores_of_ranks(ranks))

    def get_device(self, device_id: int = 0) -> str:
        # SGLang takes this for --device, where it wants a string (the base class answers a torch.device).
        return "cpu"

    def get_default_attention_backend(self) -> str:
        return SERVER_DEFAULTS["attention_backend"]

    def support_mamba_cache_extra_buffer(self) -> bool:
        return True

    def get_dispatch_key_name(self) -> str:
        return "native"

    def init_backend(self) -> None:
        # The tensors of a small model are too small to share: with two threads on two busy cores, waiting for the
        # other thread made a decode step 7 times slower (80 ms, 11 ms with one).
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        bind.install()


def _cores_of_ranks(ranks: int) -> str:
    """Cores of each rank as SGLang reads them, "0,2|1,3"; ranks share cores where there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    shares = [cores[rank % len(cores) :: ranks] for rank in range(ranks)]
    return "|".join(",".join(map(str, share)) for share in shares)
