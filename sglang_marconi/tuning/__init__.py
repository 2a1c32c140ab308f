"""Tuning of the live cache: which form of the utility suits the requests that come."""
