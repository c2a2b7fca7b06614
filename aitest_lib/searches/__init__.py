"""Searches: what they find proves that something exists; how often it occurs is for transforms to say."""
