"""Files in a bucket of S3, or of a server that speaks its protocol (`AWS_ENDPOINT_URL`), through s3fs.

Credentials, region and endpoint come from where AWS tools take them: the environment, a profile, the machine's role.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from hashlib import blake2b, md5
from pathlib import Path
from typing import Any, TypeVar

from aitest_lib.artifacts.files import CHUNK, RemoteFiles
from aitest_lib.canonical import DIGEST_BYTES
from aitest_lib.errors import InputError

R = TypeVar("R")

CONNECT_S, READ_S = 5, 30
ATTEMPTS = 2  # of botocore; with the time-outs above, a server that hangs is told of after a minute
AT_ONCE = 32  # requests in flight
PART, PARTS_AT_ONCE = 8 << 20, 4  # of the upload of a large file: 32 MiB in memory
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
SCHEMES = ("s3", "s3a")

# What S3 answers (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html) or botocore raises.
AWAY = {
    *("InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "OperationAborted", "ThrottlingException"),
    *("TooManyRequests", "429", "500", "502", "503", "504"),
    *("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError", "ConnectionError"),
    *("HTTPClientError", "ProxyConnectionError", "ResponseStreamingError", "IncompleteReadError", "ResponseParserError"),
    *("ClientPayloadError", "IncompleteRead", "FSTimeoutError", "ClientConnectorError", "ServerDisconnectedError"),
    *("FlexibleChecksumError", "IncompleteBody"),  # a part of the body was lost on the way
}
# Answers to a conditional PUT: the object is there or is being written; the server knows no conditions.
TAKEN = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")
UNCONDITIONAL = ("NotImplemented", "501")
REFUSED = "the credentials are refused; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or the profile)"
RIGHTS = "access denied; give these credentials the rights to read, write, list and delete there"
UNSET = "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile with AWS_PROFILE"
CLOCK = "the server's clock and this machine's differ by more than S3 allows; set this machine's clock"
REGION = "the bucket is in another region; set AWS_REGION to the bucket's"
PROBLEMS = {
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId"), REFUSED),
    **dict.fromkeys(("ExpiredToken", "TokenRefreshRequired"), "the credentials have expired; get new ones"),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem", "403", "401"), RIGHTS),
    **dict.fromkeys(("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"), UNSET),
    **dict.fromkeys(("RequestTimeTooSkewed", "RequestExpired"), CLOCK),
    **dict.fromkeys(("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"), REGION),
    "ProfileNotFound": "AWS_PROFILE names a profile that does not exist; correct it or unset it",
    "NoSuchBucket": "the bucket does not exist; create it or correct AITEST_STORE",
    "InvalidBucketName": "the server does not take this name for a bucket; correct AITEST_STORE",
    "SSLError": "the server's certificate is not trusted; set AWS_CA_BUNDLE to the file of its authority",
    "QuotaExceeded": "the quota is used up; make room",
    "507": "the server is full; make room",
}


def open_s3(url: str) -> S3Files:
    """The files under `s3://bucket/prefix`. Nothing is asked of the server yet."""
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.partition("/")
    if not BUCKET.fullmatch(bucket):
        what = f"the bucket {bucket!r}" if bucket else "no bucket"
        raise InputError(f"store {scheme}://{rest}: got {what}, expected s3://bucket/prefix; correct AITEST_STORE")
    if set(prefix) & set("?#"):
        raise InputError(f"store {url}: got a prefix with ? or #, expected letters, digits, - _ . and /; correct AITEST_STORE")
    if "\\" in prefix or (prefix.strip("/") and {"", ".", ".."} & set(prefix.removesuffix("/").split("/"))):
        raise InputError(
            f"store {url}: got a prefix with //, /./, /../ or \\, expected names with single / between; correct AITEST_STORE"
        )
    authority = os.environ.get("AWS_CA_BUNDLE")
    if authority and not Path(authority).exists():
        raise InputError(f"AWS_CA_BUNDLE: got {authority}, which does not exist; correct or unset it")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint and not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#@\s]*)?", endpoint):
        raise InputError("AWS_ENDPOINT_URL is not an address; expected http://host:port or https://host, without credentials")
    return S3Files(_file_system(_aws_environment()), f"{bucket}/{prefix}")


class S3Files(RemoteFiles):
    """Files of a bucket. A PUT is whole or not at all, and what was written is seen by every later read (S3 promises both)."""

    def write(self, path: str, data: bytes) -> None:
        self.fs.pipe_file(self.at(path), data)

    def create(self, path: str, data: bytes) -> bool:
        try:
            self.fs.pipe_file(self.at(path), data, mode="create")
        except OSError as error:
            code = code_of(error)
            if code not in (*TAKEN, *UNCONDITIONAL):
                raise
            if code in TAKEN or self.exists(path):
                return False
            self.write(path, data)
        return True

    def write_new(self, path: str, data: bytes) -> None:
        # One request where the object is new. Where it is not, the server's MD5 says whether it is undamaged; a server
        # that names no MD5 (encrypted buckets, parts) or knows no conditions gets it again.
        try:
            self.fs.pipe_file(self.at(path), data, mode="create")
        except OSError as error:
            if code_of(error) not in (*TAKEN, *UNCONDITIONAL):
                raise
            if self._tag(path) != md5(data, usedforsecurity=False).hexdigest():
                self.write(path, data)

    def upload(self, path: str, file: Path) -> None:
        self.fs.put_file(str(file), self.at(path), chunksize=PART, max_concurrency=PARTS_AT_ONCE)
        file.unlink()

    def read(self, path: str) -> bytes:
        # One GET: s3fs would ask for the size first.
        return bytes(self.fs.cat_file(self.at(path), max_concurrency=1))

    def read_many(self, paths: list[str]) -> list[bytes | None]:
        return self._each(lambda path: self.fs._cat_file(self.at(path), max_concurrency=1), paths)

    def digest(self, path: str) -> str | None:
        return self.digests([path])[0]

    def digests(self, paths: list[str]) -> list[str | None]:
        return self._each(self._digest, paths)

    def exists(self, path: str) -> bool:
        return self._tag(path) is not None

    def is_away(self, error: Exception) -> bool:
        return isinstance(error, TimeoutError | ConnectionError) or code_of(error) in AWAY

    def problem(self, error: Exception) -> str | None:
        code = code_of(error)
        if code in PROBLEMS:
            return PROBLEMS[code]
        if self.is_away(error):
            where = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "AWS"
            unknown = "; its name is not known here" if any("DNS" in type(cause).__name__ for cause in causes(error)) else ""
            return f"the S3 server at {where} does not answer ({code or type(error).__name__}){unknown}; check AWS_ENDPOINT_URL"
        if isinstance(error, FileNotFoundError):
            return None
        return f"{code or type(error).__name__}: {str(error)[:200]}; check the store and its credentials"

    def _names(self, folder: str) -> list[Any]:
        # With a prefix s3fs lists and no more; without one it would ask what an empty folder is.
        bucket, key, _ = self.fs.split_path(self.at(folder))
        return list(self.fs.find(bucket, prefix=f"{key.rstrip('/')}/" if key else ""))

    def _tag(self, path: str) -> str | None:
        """The ETag of an object, None where it is not there."""
        bucket, key, _ = self.fs.split_path(self.at(path))
        try:
            return str(self.fs.call_s3("head_object", Bucket=bucket, Key=key)["ETag"]).strip('"')
        except FileNotFoundError:
            return None

    async def _digest(self, path: str) -> str:
        bucket, key, _ = self.fs.split_path(self.at(path))
        hasher = blake2b(digest_size=DIGEST_BYTES)
        answer = await self.fs._call_s3("get_object", Bucket=bucket, Key=key)
        async with answer["Body"] as body:
            while chunk := await body.read(CHUNK):
                hasher.update(chunk)
        return hasher.hexdigest()

    def _each(self, action: Callable[[str], Awaitable[R]], paths: list[str]) -> list[R | None]:
        """What `action` returns for each path, None for those that are not there; many at once."""
        from fsspec.asyn import sync

        async def one(path: str, gate: asyncio.Semaphore) -> R | None:
            async with gate:
                try:
                    return await action(path)
                except FileNotFoundError as error:
                    if code_of(error) == "NoSuchBucket":
                        raise
                    return None

        async def every() -> list[R | None]:
            gate = asyncio.Semaphore(AT_ONCE)
            return list(await asyncio.gather(*(one(path, gate) for path in paths)))

        return list(sync(self.fs.loop, every))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or getattr(error, "kwargs", {}).get("error") or error.__context__


def code_of(error: BaseException) -> str | None:
    """S3's code of an error, or the name of botocore's; None for errors that are neither."""
    for cause in causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code"))
        if type(cause).__module__.startswith(("botocore.", "aiobotocore.", "aiohttp.", "fsspec.exceptions")):
            return type(cause).__name__
    return None


def _aws_environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


@lru_cache(maxsize=4)
def _file_system(environment: tuple[tuple[str, str], ...]) -> Any:
    """One client for all stores of this process, a new one where the environment has changed: s3fs's own memory of
    clients would go on with old keys."""
    import s3fs
    from aiobotocore.session import AioSession

    session = AioSession()
    session.register("before-call.s3", _expect_nothing)
    fs = s3fs.S3FileSystem(
        session=session,
        use_listings_cache=False,
        skip_instance_cache=True,
        config_kwargs={
            "connect_timeout": CONNECT_S,
            "read_timeout": READ_S,
            "retries": {"mode": "standard", "total_max_attempts": ATTEMPTS},
            "max_pool_connections": AT_ONCE,
        },
    )
    fs.retries = 1  # s3fs's own retries would multiply botocore's
    return fs


def _expect_nothing(params: dict[str, Any], **_: Any) -> None:
    """botocore asks for a server's consent before it sends a body, and no time-out covers that waiting: with a server that
    hangs it would never end."""
    params["headers"].pop("Expect", None)
