"""One HTML file with everything in it."""

from __future__ import annotations

import dataclasses
import importlib.resources
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sglang_marconi.report.figures import Figure


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a report.

    Args:
        name: of the figure's file.
        title: heading.
        text: what it shows and how to read it, in plain words.
        figure: a plot, or None.
        head: column names of the table, none without a table.
        rows: of the table.
    """

    name: str
    title: str
    text: str
    figure: Figure | None = None
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element; the same figure gives the same text."""
    import matplotlib

    content = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "marconi", "svg.fonttype": "none"}):
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    text = content.getvalue()
    return text[text.index("<svg") :]


def write_report(path: Path, title: str, summary: str, sections: Sequence[Section], commands: Sequence[str]) -> None:
    """Write the file.

    Args:
        path: of the HTML file.
        title: of the page.
        summary: what the reader should take away, one paragraph.
        sections: in order.
        commands: what made the report, to be run again.

    Raises:
        ValueError: Jinja2 is not installed.
        OSError: the file cannot be written.
    """
    try:
        import jinja2
    except ImportError:
        raise ValueError("reports need Jinja2 and matplotlib: pip install 'sglang-marconi[report]'") from None
    template = (importlib.resources.files("sglang_marconi") / "report" / "report.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    parts: list[dict[str, Any]] = [
        {**{field.name: getattr(section, field.name) for field in dataclasses.fields(section)}}
        | {"svg": svg(section.figure) if section.figure is not None else ""}
        for section in sections
    ]
    page = environment.from_string(template).render(title=title, summary=summary, sections=parts, commands=commands)
    path.write_text(page, encoding="utf-8")


def write_images(folder: Path, sections: Sequence[Section], suffix: str) -> list[Path]:
    """Write each figure as a file; answers their paths.

    Args:
        folder: made if it is missing.
        sections: those without a figure are passed over.
        suffix: ``png`` or ``svg``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for section in sections:
        if section.figure is not None:
            path = folder / f"{section.name}.{suffix}"
            section.figure.savefig(path, dpi=130, metadata={"Date": None} if suffix == "svg" else {"Software": None})
            paths.append(path)
    return paths
