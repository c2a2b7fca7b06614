"""`aitest init`: a card and a suite to start from, each guess commented."""

from __future__ import annotations

CARD, SUITE = "model.yaml", "suite.yaml"
MANY_CLASSES = 20
