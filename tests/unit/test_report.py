"""``sglang-marconi report``."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from sglang_marconi.cli import main

pytest.importorskip("matplotlib")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "chat <1>.jsonl"
    made = CliRunner().invoke(main, ["trace", "generate", "chat", "--sessions", "20", "-o", str(path)])
    assert made.exit_code == 0, made.output
    return path


def report(trace: Path, *arguments: object) -> Result:
    sizes = ["--capacity", "500MB,1GB,5GB", "--policy", "none,sglang,marconi,belady"]
    return CliRunner().invoke(main, ["report", str(trace), *sizes, *map(str, arguments)])


def test_one_file_holds_the_figures_and_the_numbers(trace: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    result = report(trace, "--alpha", "0,1", "-o", output)
    assert result.exit_code == 0, result.output
    page = output.read_text()
    assert "chat &lt;1&gt;.jsonl" in page  # names are escaped
    assert "With 1 GB, " in page
    assert "marconi, alpha 1" in page
    assert not re.search(r"<script|<link|(src|href)=.http", page)  # nothing is fetched
    figures = page.split("<svg")[1:]
    assert len(figures) >= 8
    for figure in figures:
        ElementTree.fromstring("<svg" + figure.split("</svg>")[0] + "</svg>")


def test_same_input_gives_the_same_figures(trace: Path, tmp_path: Path) -> None:
    pages = []
    for name in ("a.html", "b.html"):
        report(trace, "-o", tmp_path / name)
        pages.append((tmp_path / name).read_text().split("How this was made")[0])
    assert pages[0] == pages[1]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_figures_are_written_as_files_too(trace: Path, tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "figures"
    result = report(trace, "-o", tmp_path / "r.html", "--images", folder, "--image-format", suffix)
    assert result.exit_code == 0, result.output
    names = {path.name for path in folder.iterdir()}
    assert {f"memory.{suffix}", f"missed.{suffix}", f"ttft.{suffix}"} <= names
    assert all(path.stat().st_size > 1000 for path in folder.iterdir())


def test_folder_that_cannot_be_written_is_named(trace: Path, tmp_path: Path) -> None:
    result = report(trace, "-o", tmp_path / "missing" / "r.html")
    assert result.exit_code == 1
    assert "missing" in result.output
