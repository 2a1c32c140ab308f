"""``python -m sglang_marconi.cli``."""

from sglang_marconi.cli import main

main(prog_name="sglang-marconi")
