"""Marconi prefix caching for hybrid models on SGLang."""
