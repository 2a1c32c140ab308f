"""The command line ``sglang-marconi``: one file per command."""

from __future__ import annotations

import click

from sglang_marconi.cli.latency import latency
from sglang_marconi.cli.models import models
from sglang_marconi.cli.report import report
from sglang_marconi.cli.simulate import simulate
from sglang_marconi.cli.size import size
from sglang_marconi.cli.sweep import sweep
from sglang_marconi.cli.trace import trace


@click.group()
def main() -> None:
    """Marconi prefix caching: simulate policies on request traces."""


for _command in (trace, simulate, sweep, report, size, models, latency):
    main.add_command(_command)
