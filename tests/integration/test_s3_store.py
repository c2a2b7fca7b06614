"""The store on a real S3 server: what is sent, what is read back, and one message for each thing that can be wrong."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from s3_server import BUCKET, KEY, READER, READER_SECRET, SECRET, s3_server

from aitest_lib.answers import read_book, write_segment
from aitest_lib.artifacts import s3 as s3_files
from aitest_lib.artifacts.codecs import TableWriter, get_table
from aitest_lib.artifacts.patience import Patience
from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing, InputError, StoreError
from aitest_lib.types import Predictions


@pytest.fixture(scope="module")
def s3():
    return s3_server()


@pytest.fixture
def environment(s3, monkeypatch):
    """Sets the variables of an identity."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)

    def set_for(key=KEY, secret=SECRET, **more):
        for name, value in {**s3.environment(key, secret), **more}.items():
            monkeypatch.setenv(name, value)

    set_for()
    return set_for


@pytest.fixture
def store(s3, environment):
    return Store(s3.prefix())


@pytest.fixture
def calls(store, monkeypatch):
    """Counts the requests of the store's client by their names."""
    counted: Counter[str] = Counter()
    fs = store._files.fs
    call = type(fs)._call_s3

    async def counting(self, method, *args, **options):
        counted[method] += 1
        return await call(self, method, *args, **options)

    monkeypatch.setattr(type(fs), "_call_s3", counting)
    return counted


def raw(s3, store, path):
    """An object as another client sees it."""
    return s3.client().cat_file(f"{store.root}/{path}")


class TestObjects:
    def test_bytes_come_back_under_their_digest(self, store, s3):
        ref = store.put(b"hello", "bin", 1)
        assert store.get(ref) == raw(s3, store, ref.uri) == b"hello"
        assert store.files("") == [ref.uri]
        assert store.folders("objects") == [ref.uri.split("/")[1]]
        assert store.get(store.put(b"", "bin", 0)) == b""

    def test_a_new_object_is_one_request_and_a_known_one_is_not_sent_over_itself(self, store, calls):
        ref = store.put(b"hello", "bin", 1)
        assert calls == {"put_object": 1}
        created = store._files.fs.info(f"{store.root}/{ref.uri}")["LastModified"]
        calls.clear()
        assert store.put(b"hello", "bin", 1) == ref
        assert set(calls) <= {"put_object", "head_object"}
        assert store._files.fs.info(f"{store.root}/{ref.uri}")["LastModified"] == created
        calls.clear()
        assert store.get(ref) == b"hello"
        assert calls == {"get_object": 1}

    def test_a_damaged_object_is_written_anew(self, store):
        ref = store.put(b"hello", "bin", 1)
        store.write(ref.uri, b"hell0")
        store.put(b"hello", "bin", 1)
        assert store.get(ref) == b"hello"

    def test_a_damaged_object_is_noticed_and_removed(self, store):
        good, bad, gone = (store.put(text, "bin", 1) for text in (b"one", b"two", b"three"))
        store.write(bad.uri, b"2wo")
        store.remove(gone.uri)
        assert store.intact([good, bad, gone, good]) == [True, False, False, True]
        assert not store.exists(bad.uri)
        assert store.intact([]) == []
        store.write(good.uri, b"0ne")
        with pytest.raises(ArtifactMissing, match="do not match its digest"):
            store.get(good)
        assert store.read(good.uri) == b"0ne", "reading removes nothing"
        assert store.intact([good]) == [False]
        assert not store.exists(good.uri)

    def test_a_large_file_goes_up_in_parts(self, store, calls):
        table = pa.table({"x": np.random.default_rng(0).integers(0, 2**62, 1 << 20)})
        with TableWriter(store, table.schema) as writer:
            for start in range(0, table.num_rows, 1 << 18):
                writer.write(table.slice(start, 1 << 18))
            file = writer._file
            writer.write(table)
        assert calls["upload_part"] >= 2
        assert not file.exists()
        assert get_table(store, writer.ref).num_rows == 2 * table.num_rows
        assert store.intact([writer.ref]) == [True]

    def test_two_writers_of_one_object(self, store):
        data = os.urandom(1 << 16)
        refs = []
        threads = [threading.Thread(target=lambda: refs.append(store.put(data, "bin", 1))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refs) == 8
        assert store.get(refs[0]) == data


class TestRecords:
    def test_records_are_replaced_listed_and_removed(self, store):
        store.write_json("runs/a/run.json", {"text": "é"})
        store.write_json("runs/a/run.json", {"text": "è"})
        store.write_json("runs/ab/run.json", {})
        assert store.read_json("runs/a/run.json") == {"text": "è"}
        assert store.files("runs/a") == ["runs/a/run.json"]
        assert store.files("runs") == ["runs/a/run.json", "runs/ab/run.json"]
        assert store.folders("runs") == ["a", "ab"]
        store.remove("runs/a/run.json")
        store.remove("runs/a/run.json")
        assert store.files("runs/a") == store.files("none") == store.folders("none") == []
        assert not store.exists("runs/a/run.json")
        assert not store.exists("runs")

    def test_of_several_one_creates_a_record(self, store):
        names, made = [b"%d" % number for number in range(8)], []
        threads = [threading.Thread(target=lambda name=name: made.append((store.create("a", name), name))) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8
        assert [name for created, name in made if created] == [store.read("a")]

    def test_a_server_that_knows_no_conditions(self, store, monkeypatch):
        pipe = store._files.fs.pipe_file

        def unconditional(path, data, mode="overwrite"):
            if mode == "create":
                raise OSError from ClientError({"Error": {"Code": "NotImplemented"}}, "PutObject")
            return pipe(path, data)

        monkeypatch.setattr(store._files.fs, "pipe_file", unconditional)
        assert store.create("a", b"first")
        assert not store.create("a", b"second")
        assert store.read("a") == b"first"

    def test_the_scheme_in_capitals(self, store):
        store.write("a", b"1")
        other = Store(store.url.replace("s3://", "S3://"))
        assert other.url == store.url
        assert other.read("a") == b"1"

    def test_no_path_leads_out_of_a_store(self, store, s3):
        for action in (store.read, store.remove, store.files, store.exists, lambda path: list(store.read_many([path]))):
            with pytest.raises(StoreError, match="leads out of the store"):
                action("../x")

    def test_what_is_not_there(self, store):
        with pytest.raises(ArtifactMissing, match=r"runs/none/run.json cannot be used: it is not there"):
            store.read("runs/none/run.json")
        assert list(store.read_many(["none"])) == [("none", None)]

    def test_markers_of_folders_are_no_files(self, store, s3):
        s3.client().pipe_file(f"{store.root}/runs/x/", b"")
        store.write("runs/y", b"1")
        assert store.files("runs") == ["runs/y"]

    def test_another_process_is_seen_at_once(self, store, s3):
        assert store.files("runs") == []
        s3.client().pipe_file(f"{store.root}/runs/a", b"1")
        assert store.files("runs") == ["runs/a"]
        s3.client().rm_file(f"{store.root}/runs/a")
        assert store.files("runs") == []
        assert store._files.fs.dircache.use_listings_cache is False

    def test_many_are_read_at_once_and_in_order(self, store):
        names = [f"many/{number:03d}" for number in range(300)]
        for name in names:
            store.write(name, name.encode())
        asked = [*names, "many/none"]
        assert list(store.read_many(asked)) == [*((name, name.encode()) for name in names), ("many/none", None)]

    def test_answers_are_read_like_from_a_folder(self, store, tmp_path):
        local = Store(str(tmp_path))
        random = np.random.default_rng(3)
        for number in range(40):
            digests = np.frombuffer(random.bytes(16 * 20), "V16")
            answers = Predictions(np.array(["a", "b"] * 10, object), random.random((20, 2)), np.full(20, None, object))
            write_segment(local, "answers/m/1", digests, answers, f"run{number % 3}")
        for path in local.files("answers"):
            store.write(path, local.read(path))
        here, there = read_book(local, ["answers/m/1"]), read_book(store, ["answers/m/1"])
        assert (here.digests == there.digests).all()
        assert (here.labels(np.arange(800)) == there.labels(np.arange(800))).all()
        assert (here.scores == there.scores).all()
        assert here.by_run == there.by_run

    def test_a_store_can_be_checked_by_two_at_once(self, store):
        failed = []

        def check():
            for _ in range(5):
                try:
                    store.check()
                except StoreError as error:
                    failed.append(error)

        threads = [threading.Thread(target=check) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert store.files("") == []


class TestWhatIsWrong:
    def fails(self, url, match, action=Store.check):
        with pytest.raises(StoreError, match=match) as caught:
            action(Store(url))
        message = str(caught.value)
        assert caught.value.exit_code == 3
        assert url in message
        assert SECRET not in message
        assert "\n" not in message
        return message

    @pytest.mark.parametrize(("key", "secret"), [(KEY, "wrong-secret"), ("stranger", "wrong-secret")])
    def test_credentials_that_are_refused(self, s3, environment, key, secret):
        environment(key, secret)
        assert "wrong-secret" not in self.fails(s3.prefix(), r"credentials are refused; check AWS_ACCESS_KEY_ID")

    def test_no_credentials(self, s3, environment, monkeypatch):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        self.fails(s3.prefix(), r"there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")

    def test_a_profile_that_is_not_there(self, s3, environment):
        environment(AWS_PROFILE="nobody")
        self.fails(s3.prefix(), r"AWS_PROFILE names a profile that does not exist")

    def test_rights_to_read_only(self, s3, store, environment):
        ref = store.put(b"hello", "bin", 1)
        environment(READER, READER_SECRET)
        assert Store(store.url).get(ref) == b"hello"
        for action in (Store.check, lambda store: store.put(b"new", "bin", 1), lambda store: store.remove(ref.uri)):
            self.fails(store.url, r"cannot (write|remove) .*access denied; give these credentials the rights", action)

    def test_a_bucket_that_does_not_exist(self, environment):
        actions = (
            Store.check,
            lambda store: store.read("a"),
            lambda store: store.files("a"),
            lambda store: list(store.read_many(["a"])),
            lambda store: store.put(b"x", "bin", 1),
        )
        for action in actions:
            self.fails("s3://no-such-bucket/x", r"the bucket does not exist; create it or correct AITEST_STORE", action)

    def test_a_server_that_does_not_answer(self, s3, environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{free.getsockname()[1]}"
        environment(AWS_ENDPOINT_URL=address)
        self.fails(s3.prefix(), rf"the S3 server at {address} does not answer .*check AWS_ENDPOINT_URL")

    def test_a_server_that_hangs(self, s3, environment, monkeypatch):
        monkeypatch.setattr(s3_files, "READ_S", 0.5)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}")
            for action in (Store.check, lambda store: store.read("a"), lambda store: store.files("a")):
                self.fails(s3.prefix(), r"does not answer \(ReadTimeoutError\)", action)

    def test_a_name_that_nobody_knows(self, s3, environment):
        environment(AWS_ENDPOINT_URL="http://nowhere.invalid:1")
        self.fails(s3.prefix(), r"does not answer .*its name is not known here")

    def test_a_clock_that_is_wrong(self, s3, environment):
        code = b"<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>"

        class Skewed(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(403)
                self.send_header("Content-Length", str(len(code)))
                self.end_headers()
                self.wfile.write(code)

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Skewed)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.server_port}")
        self.fails(s3.prefix(), r"clock.*set this machine's clock")
        server.shutdown()
        server.server_close()

    def test_a_file_of_authorities_that_does_not_exist(self, environment):
        environment(AWS_CA_BUNDLE="/none/ca.pem")
        with pytest.raises(InputError, match=r"AWS_CA_BUNDLE: got /none/ca.pem, which does not exist; correct or unset it"):
            Store(f"s3://{BUCKET}/x")

    def test_an_address_that_is_none(self, environment):
        environment(AWS_ENDPOINT_URL="127.0.0.1:8333")
        with pytest.raises(InputError, match=r"AWS_ENDPOINT_URL is not an address; expected http://host:port"):
            Store(f"s3://{BUCKET}/x")

    def test_other_keys_are_used_as_soon_as_they_are_set(self, s3, environment):
        environment(KEY, "wrong-secret")
        self.fails(s3.prefix(), "credentials are refused")
        environment()
        Store(s3.prefix()).check()


class TestOutage:
    def test_a_server_that_is_away_is_tried_again(self, s3, environment):
        """The client meets a closed port first; the real server takes over its address later."""
        told = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        forward = Forward(port, s3.ports["s3.port"])
        patience = Patience(
            30, pause=lambda seconds: forward.open() or time.sleep(seconds), tell=lambda *what: told.append(what)
        )
        environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
        try:
            Store(s3.prefix(), patience).check()
        finally:
            forward.close()
        assert not told[0][1]
        assert told[-1][1]

    def test_what_no_waiting_mends_is_told_at_once(self, s3, environment):
        environment(KEY, "wrong-secret")
        pauses = []
        with pytest.raises(StoreError, match="refused"):
            Store(s3.prefix(), Patience(60, pause=pauses.append)).read("a")
        assert pauses == []


class Forward:
    """Passes the connections of one port on to another, once it is open."""

    def __init__(self, port: int, target: int) -> None:
        self.port, self.target = port, target
        self.listener: socket.socket | None = None
        self.sockets: list[socket.socket] = []

    def open(self) -> None:
        if self.listener is None:
            self.listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self.listener, *self.sockets):
            if one is not None:
                one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return
