"""What somebody else puts into the store is not trusted: no pickle is ever loaded, damaged answers are asked again."""

from __future__ import annotations

import base64
import json
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
from projects import people


class Payload:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_planted_pickle_is_not_loaded(project, server, tmp_path):
    project.fill(server, people(200))
    first = project.run()
    planted = tmp_path / "planted"  # pickle is only written here, to see that nothing reads it
    results = [path for path in (project.store / "results").iterdir() if path.is_file()]
    assert results
    for path in results:
        stored = json.loads(path.read_text())
        stored["metadata"]["serializer"] = {"type": "pickle", "picklelib": "pickle"}
        stored["result"] = base64.b64encode(pickle.dumps(Payload(str(planted)))).decode()
        path.write_text(json.dumps(stored))
    second = project.run()
    assert not planted.exists()
    assert [gate["verdict"] for item in second["properties"] for gate in item["gates"]] == [
        gate["verdict"] for item in first["properties"] for gate in item["gates"]
    ]
    assert second["queries"]["sent"] == 0


def test_damaged_and_foreign_answers_are_asked_again(project, server):
    project.fill(server, people(200))
    first = project.run()
    damaged, foreign, *rest = sorted((project.store / "answers").glob("*/*/*.parquet"))
    assert rest is not None
    damaged.write_bytes(b"PAR1 garbage")
    pq.write_table(pa.table({"something": ["else"]}), foreign)
    second = project.run()
    assert second["status"] == first["status"]
    assert second["queries"]["sent"] > 0
    assert second["queries"]["planned"] == first["queries"]["planned"]
    assert not damaged.exists()


def test_a_run_folder_without_its_record_is_passed_over(project, server):
    project.fill(server, people(60))
    report = project.run()
    (project.store / "runs" / "zzz").mkdir()
    assert report["run_id"][:12] in project.here("show", "last").out
