"""Transforms of images: one family a module."""
