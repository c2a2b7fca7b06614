"""Reports: what a run found, as data, as sentences, as one self-contained page."""
