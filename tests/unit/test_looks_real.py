"""Which rows are no outliers among real ones."""

from __future__ import annotations

import numpy as np
import pandas as pd

from aitest_lib.data.schema import Column, Profile, build_profile
from aitest_lib.data.table import memory_source
from aitest_lib.metrics.realism import looks_real


def people(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    job = rng.choice(["cook", "nurse", "clerk"], 2000)
    return pd.DataFrame({"age": rng.integers(18, 80, 2000), "income": rng.lognormal(3, 0.7, 2000), "job": job})


def test_outliers_do_not_look_real():
    frame = people(0)
    profile = build_profile(memory_source(frame), None, {}, [], set())
    strange = frame.head(20).assign(age=500, income=1e6, job="astronaut")
    assert not looks_real(frame, strange, profile, 0).any()
    assert looks_real(frame, people(1), profile, 0).mean() > 0.97
    order = np.random.default_rng(0).permutation(2000)
    rows = people(2).head(300)
    assert (looks_real(frame, rows, profile, 0) == looks_real(frame.iloc[order], rows, profile, 0)).all()


def test_missing_values_may_look_real():
    frame = people(0).head(1000)
    frame["income"] = frame["income"].where(np.arange(1000) % 3 > 0)
    frame["job"] = frame["job"].where(np.arange(1000) % 4 > 0, None)
    profile = Profile(columns=(Column(name="income", kind="number"), Column(name="job", kind="category")))
    assert looks_real(frame, frame, profile, 0).mean() > 0.98
    assert looks_real(frame, frame.head(0), profile, 0).shape == (0,)
