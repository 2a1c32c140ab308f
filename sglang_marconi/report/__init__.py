"""Figures and the HTML report: what a trace would hit, in plots that need no paper to be read."""
