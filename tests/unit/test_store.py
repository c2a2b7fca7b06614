"""The artifact store on a local folder and on a file system that is not local."""

from __future__ import annotations

import os
import stat

import fsspec
import pyarrow as pa
import pytest
from disks import small_disk
from fsspec.implementations.memory import MemoryFileSystem

from aitest_lib.artifacts.codecs import TableWriter, get_table, put_table
from aitest_lib.artifacts.patience import Patience
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest_bytes
from aitest_lib.errors import ArtifactMissing, InputError, StoreError
from aitest_lib.types import ArtifactRef


class NoCredentials(Exception):
    """As the clients of object stores have them: no OSError."""


class LockedFileSystem(MemoryFileSystem):
    """An object store without credentials."""

    protocol = "locked"

    def _refuse(self, *_args, **_options):
        raise NoCredentials("unable to locate credentials")

    cat_file = pipe_file = exists = find = ls = rm_file = _refuse


fsspec.register_implementation("locked", LockedFileSystem, clobber=True)


@pytest.fixture(params=["folder", "memory"])
def store(request, tmp_path):
    if request.param == "folder":
        yield Store(str(tmp_path / "store"))
        return
    yield Store("memory://bucket/prefix")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


TABLE = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})


def test_bytes_come_back_under_their_digest(store):
    ref = store.put(b"hello", "bin", 1)
    assert ref.digest == digest_bytes(b"hello")
    assert ref.uri == f"objects/{ref.digest[:2]}/{ref.digest[2:]}.bin"
    assert store.get(ref) == b"hello"
    assert store.put(b"hello", "bin", 1) == ref
    assert store.files("objects") == [ref.uri]
    assert ArtifactRef.of(ref.to_dict()) == ref


def test_json_comes_back(store):
    value = {"b": [1, 2.5, None, "é", 2**60], "a": {"\u20ac": True}}
    ref = store.put_json(value)
    assert store.get_json(ref) == value
    assert store.put_json(dict(reversed(value.items()))) == ref


def test_a_damaged_object_is_noticed_and_can_be_made_again(store):
    ref = store.put(b"hello", "bin", 1)
    store.write(ref.uri, b"hell0")
    with pytest.raises(ArtifactMissing, match="do not match its digest; it will be made again"):
        store.get(ref)
    assert store.read(ref.uri) == b"hell0", "reading removes nothing"
    store.put(b"hello", "bin", 1)
    assert store.get(ref) == b"hello"


@pytest.mark.parametrize(
    "change",
    [
        {"uri": "../precious"},
        {"uri": "objects"},
        {"uri": "runs/a/run.json"},
        {"uri": "objects/5d/" + "0" * 30 + ".bin"},
        {"codec": "json"},
        {"codec": "../bin"},
        {"digest": "ab"},
        {"digest": 5},
        {"uri": None},
        {"rows": "1"},
        {"rows": True},
        {"rows": -1},
    ],
)
def test_a_reference_leads_to_the_artifact_of_its_digest_or_is_none(store, change):
    ref = store.put(b"hello", "bin", 1)
    with pytest.raises(ValueError, match=r"got .*, expected the path of its digest and codec"):
        ArtifactRef.of(ref.to_dict() | change)
    for nothing in (None, 5, "text", [], {}):
        with pytest.raises(ValueError, match="expected a reference"):
            ArtifactRef.of(nothing)


def test_no_path_leads_out_of_a_store(store, tmp_path):
    (tmp_path / "precious").write_text("mine")
    for path in ("../precious", "runs/../../precious", "..", "a/..", "runs/x\0y"):
        for action in (
            store.read,
            store.remove,
            store.remove_folder,
            store.files,
            store.folders,
            store.exists,
            lambda path: store.write(path, b"x"),
            lambda path: store.create(path, b"x"),
            lambda path: list(store.read_many([path])),
        ):
            with pytest.raises(StoreError, match=r"leads out of the store .*; remove the record that names it"):
                action(path)
    assert (tmp_path / "precious").read_text() == "mine"
    store.write("runs/a..b/run.json", b"{}")
    assert store.files("runs") == ["runs/a..b/run.json"]


def test_a_record_is_created_once(store):
    assert store.create("runs/a/lease.json", b"first")
    assert not store.create("runs/a/lease.json", b"second")
    assert store.read("runs/a/lease.json") == b"first"
    assert store.files("") == ["runs/a/lease.json"]


class Flaky:
    """A store whose next reads give something else, as a proxy's page in place of a file."""

    def __init__(self, store, monkeypatch, times):
        self.times = times
        read, digest = store._files.read, store._files.digest
        monkeypatch.setattr(store._files, "read", lambda path: b"<html>" if self.fault() else read(path))
        monkeypatch.setattr(store._files, "digest", lambda path: digest_bytes(b"<html>") if self.fault() else digest(path))

    def fault(self):
        self.times -= 1
        return self.times >= 0


def test_bytes_are_read_twice_before_they_count_as_damaged(store, monkeypatch):
    refs = [store.put(text, "bin", 1) for text in (b"one", b"two", b"three")]
    store.write_json("runs/a/run.json", {"a": 1})
    flaky = Flaky(store, monkeypatch, 0)
    for read in (lambda: store.get(refs[0]) == b"one", lambda: store.read_json("runs/a/run.json") == {"a": 1}):
        flaky.times = 1
        assert read()
        flaky.times = 2
        with pytest.raises(ArtifactMissing):
            read()
    flaky.times = 2
    assert store.intact(refs) == [True, True, True]
    assert store.files("objects") == sorted(ref.uri for ref in refs)


def test_what_is_not_there(store):
    for read in (store.read, store.read_json):
        with pytest.raises(ArtifactMissing, match=r"runs/none/run.json cannot be used: it is not there"):
            read("runs/none/run.json")
    assert not store.exists("runs/none/run.json")
    assert store.files("runs") == store.folders("runs") == []
    store.remove("runs/none/run.json")


def test_named_records(store):
    store.write_json("runs/b/run.json", {"id": "b", "text": "é"})
    store.write_json("runs/a/run.json", {"id": "a"})
    store.write_json("runs/a/run.json", {"id": "a", "again": True})
    store.write("runs/a/deep/lease", b"1")
    assert store.read_json("runs/a/run.json") == {"id": "a", "again": True}
    assert store.folders("runs") == ["a", "b"]
    assert store.files("runs") == ["runs/a/deep/lease", "runs/a/run.json", "runs/b/run.json"]
    store.remove("runs/a/deep/lease")
    assert store.files("runs/a") == ["runs/a/run.json"]


def test_a_torn_record_is_missing(store):
    store.write("runs/a/run.json", b'{"id": ')
    with pytest.raises(ArtifactMissing, match="it is not JSON"):
        store.read_json("runs/a/run.json")


def test_a_store_can_be_checked(store):
    store.check()
    assert store.files("") == []


def test_many_records_are_read_in_order(store):
    names = [f"many/{number:03d}" for number in range(300)]
    for name in names:
        store.write(name, name.encode())
    asked = ["none", *names]
    assert list(store.read_many(asked)) == [("none", None), *((name, name.encode()) for name in names)]
    assert list(store.read_many([])) == []


def test_damaged_and_missing_objects_are_told_apart_from_whole_ones(store):
    good, bad, gone = (store.put(text, "bin", 1) for text in (b"one", b"two", b"three"))
    store.write(bad.uri, b"2wo")
    store.remove(gone.uri)
    assert store.intact([good, bad, gone]) == [True, False, False]
    assert store.intact([]) == []
    assert store.files("objects") == [good.uri]


def test_tables_come_back_whole_or_by_column(store):
    ref = put_table(store, TABLE)
    assert (ref.codec, ref.rows) == ("parquet", 3)
    assert get_table(store, ref).equals(TABLE)
    assert get_table(store, ref, ["b"]).column_names == ["b"]
    assert put_table(store, TABLE) == ref


def test_what_is_no_table_is_missing(store):
    with pytest.raises(ArtifactMissing, match="not a readable Parquet file"):
        get_table(store, store.put(b"PAR1 it is not", "parquet", 1))


def test_a_table_is_written_piece_by_piece(store):
    with TableWriter(store, TABLE.schema, {"schema_version": "1"}) as writer:
        writer.write(TABLE)
        writer.write(TABLE.slice(1))
    assert writer.ref.rows == 5
    table = get_table(store, writer.ref)
    assert table.column("a").to_pylist() == [1, 2, 3, 2, 3]
    assert table.schema.metadata[b"schema_version"] == b"1"
    assert [path for path in store.files("") if "objects/" not in path] == []


def test_an_interrupted_table_leaves_nothing(store):
    writer = TableWriter(store, TABLE.schema)
    with pytest.raises(KeyboardInterrupt), writer:
        writer.write(TABLE)
        raise KeyboardInterrupt
    assert writer.ref is None
    assert not writer._file.exists()
    assert store.files("objects") == []


class TestFolder:
    def test_relative_and_file_urls_are_one_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert Store("s").url == Store((tmp_path / "s").as_uri()).url == f"file://{tmp_path}/s"

    def test_a_disk_without_hard_links_creates_records_too(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        store = Store(str(tmp_path))
        assert store.create("a", b"first")
        assert not store.create("a", b"second")
        assert store.read("a") == b"first"
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_half_written_files_are_never_seen(self, tmp_path):
        store = Store(str(tmp_path))
        store.write("runs/a", b"1")
        (tmp_path / "runs" / ".tmp-x").write_bytes(b"half")
        assert store.files("runs") == ["runs/a"]

    def test_a_failed_write_leaves_the_old_record_and_no_rest(self, tmp_path):
        store = Store(str(tmp_path))
        store.write("runs/a/b", b"old")
        with pytest.raises(StoreError, match=r"cannot write file://.*/runs/a: Is a directory; check the store"):
            store.write("runs/a", b"new")
        assert store.read("runs/a/b") == b"old"
        assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["a"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_may_not_be_written(self, tmp_path):
        tmp_path.chmod(0o500)
        with pytest.raises(StoreError, match=r"permission denied; make file://.* writable or set AITEST_STORE"):
            Store(str(tmp_path)).check()

    def test_a_file_in_the_way(self, tmp_path):
        (tmp_path / "store").write_text("a file")
        with pytest.raises(StoreError, match=r"cannot write .*AITEST_STORE"):
            Store(str(tmp_path / "store")).check()

    def test_other_workers_may_read_what_is_written(self, tmp_path):
        before = os.umask(0o022)
        try:
            store = Store(str(tmp_path))
            store.write("record", b"1")
            with TableWriter(store, TABLE.schema) as writer:
                writer.write(TABLE)
        finally:
            os.umask(before)
        for path in ("record", writer.ref.uri):
            assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o644

    def test_a_full_disk(self, tmp_path):
        with small_disk(tmp_path / "disk", "64k"):
            store = Store(str(tmp_path / "disk"))
            store.write("small", b"1")
            with pytest.raises(StoreError, match=r"cannot write .*: No space left on device; make room on its disk") as caught:
                store.put(os.urandom(1 << 20), "bin", 1)
            assert caught.value.exit_code == 3
            with pytest.raises(StoreError, match=r"No space left"), TableWriter(store, TABLE.schema) as writer:
                for _ in range(2_000):
                    writer.write(pa.table({"a": [1, 2, 3], "b": [os.urandom(99).hex()] * 3}))
            assert store.files("") == ["small"]
            assert not writer._file.exists()
            assert store.get(store.put(b"hello", "bin", 1)) == b"hello"


class TestWrongUrls:
    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("nope://x", r"store nope://x: .*expected a folder, file:///… or s3://bucket/prefix"),
            ("http://host/x", r"store http://host/x: got no place to write to"),
            ("file://folder/x", r"store file://folder/x: got no place to write to, expected a folder, file:///folder"),
            ("file:///", r"got no place to write to"),
            ("s3://", r"got no place to write to, expected .* s3://bucket/prefix"),
            ("s3:/bucket/x", r"store s3:/bucket/x: got s3: and a path, expected a URL; did you mean s3://bucket/x\?"),
            ("s3:///x", r"got no bucket, expected s3://bucket/prefix"),
            ("s3://a b/x", r"got the bucket 'a b', expected s3://bucket/prefix"),
            ("s3://bucket/x?y", r"got a prefix with \? or #"),
            ("s3://bucket/a//b", r"store s3://bucket/a//b: got a prefix with //, /./, /../ or "),
            ("s3://bucket//a", r"got a prefix with //"),
            ("s3://bucket/./a", r"got a prefix with //"),
            ("s3://bucket/a/../b", r"got a prefix with //"),
            ("s3://bucket/a/..", r"got a prefix with //"),
            ("s3://bucket/a\\b", r"got a prefix with //"),
            ("S3:///x", r"store s3:///x: got no bucket"),
            ("HTTP://host/x", r"got no place to write to"),
        ],
    )
    def test_what_cannot_be_a_store(self, url, message):
        with pytest.raises(InputError, match=message) as caught:
            Store(url)
        assert caught.value.exit_code == 2

    def test_credentials_in_a_url_are_refused_and_not_repeated(self):
        with pytest.raises(InputError, match=r"must not hold credentials") as caught:
            Store("s3://key:hunter2@bucket/x")
        assert "hunter2" not in str(caught.value)

    def test_errors_that_are_the_clients_own_are_the_stores(self):
        store = Store("locked://bucket")
        for action in (store.check, lambda: store.read("a"), lambda: store.files("a"), lambda: store.put(b"x", "bin", 1)):
            with pytest.raises(StoreError, match=r"locked://bucket.*unable to locate credentials; check the store") as caught:
                action()
            assert caught.value.exit_code == 3


class TestPatience:
    def away(self, times):
        """An action that fails with ConnectionError so often, then says how often it was tried."""
        tried = []

        def action():
            tried.append(1)
            if len(tried) <= times:
                raise ConnectionError(f"attempt {len(tried)}")
            return len(tried)

        return action

    def is_away(self, error):
        return isinstance(error, ConnectionError)

    def test_a_service_that_comes_back(self):
        pauses, told = [], []
        patience = Patience(60, pauses.append, lambda waited, back: told.append(back))
        assert patience.keep_trying(self.away(6), self.is_away) == 7
        assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
        assert told == [False] * 6 + [True]

    def test_nothing_is_told_where_nothing_was_away(self):
        told = []
        assert Patience(60, tell=lambda *what: told.append(what)).keep_trying(self.away(0), self.is_away) == 1
        assert told == []

    def test_without_patience_the_first_failure_counts(self):
        pauses = []
        with pytest.raises(ConnectionError, match="attempt 1"):
            Patience(0, pauses.append).keep_trying(self.away(9), self.is_away)
        assert pauses == []

    def test_other_errors_are_raised_at_once(self):
        pauses = []
        with pytest.raises(ValueError, match="wrong"):
            Patience(60, pauses.append).keep_trying(lambda: (_ for _ in ()).throw(ValueError("wrong")), self.is_away)
        assert pauses == []

    def test_what_was_given_up_is_not_waited_for_again_until_it_answers(self):
        pauses = []
        patience = Patience(0.1, pauses.append)
        with pytest.raises(ConnectionError):
            patience.keep_trying(self.away(9), self.is_away)
        patience.seconds = 60
        with pytest.raises(ConnectionError, match="attempt 1"):
            patience.keep_trying(self.away(9), self.is_away)
        assert pauses == []
        patience.keep_trying(self.away(0), self.is_away)
        assert patience.keep_trying(self.away(2), self.is_away) == 3
        assert len(pauses) == 2

    def test_a_pause_may_end_the_waiting(self):
        def stop(seconds):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Patience(60, stop).keep_trying(self.away(9), self.is_away)
