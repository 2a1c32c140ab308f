"""The command line ``sglang-marconi``: one file per command."""

from __future__ import annotations

import click

from sglang_marconi.cli.simulate import simulate


@click.group()
def main() -> None:
    """Marconi prefix caching: simulate policies on request traces."""


main.add_command(simulate)
