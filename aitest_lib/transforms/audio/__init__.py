"""Transforms of speech."""
