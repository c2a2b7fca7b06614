"""The artifact store on a local folder and on a file system that is not local."""

from __future__ import annotations

import os
import stat

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from aitest_lib.artifacts.codecs import TableWriter, get_table, put_table
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


def test_a_damaged_object_is_noticed_removed_and_can_be_made_again(store):
    ref = store.put(b"hello", "bin", 1)
    store.write(ref.uri, b"hell0")
    with pytest.raises(ArtifactMissing, match="do not match its digest; it will be made again"):
        store.get(ref)
    assert not store.exists(ref.uri)
    store.put(b"hello", "bin", 1)
    assert store.get(ref) == b"hello"


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


def test_nothing_is_listed_from_a_cache(store):
    assert store.fs.dircache.use_listings_cache is False


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


class TestWrongUrls:
    def test_an_unknown_protocol(self):
        with pytest.raises(InputError, match=r"store nope://x: .*expected a folder, file:///… or s3://bucket/prefix"):
            Store("nope://x")

    def test_errors_that_are_the_clients_own_are_the_stores(self):
        store = Store("locked://bucket")
        for action in (store.check, lambda: store.read("a"), lambda: store.files("a"), lambda: store.put(b"x", "bin", 1)):
            with pytest.raises(StoreError, match=r"locked://bucket.*unable to locate credentials; check the store") as caught:
                action()
            assert caught.value.exit_code == 3
