"""Traces, models and replays on the native core."""
