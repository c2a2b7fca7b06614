"""The content of an answer: decompressed, whole or not at all, and as text."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

from aitest_lib.models.endpoint.wire import WireError

PLAIN = ("", "identity")
COMPRESSED = ("gzip", "x-gzip", "deflate")

# Python knows many more, among them some that are no charset ("zlib") and some that are slow or change meaning ("idna").
_CHARSETS = re.compile(
    r"utf-?(8|16|32)((?<!8)-?[lb]e)?|latin-?1|iso-?8859-?[0-9]{1,2}|(windows|cp)-?125[0-9]|(us-?)?ascii"
    r"|shift-?jis|sjis|euc-?(jp|kr)|gb(k|2312|18030)|big5(-?hkscs)?|koi8-?[rtu]"
)


def decompressed(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The content in pieces; `encoding`: one of `PLAIN` or `COMPRESSED`.

    gzip (RFC 1952, also of several members), deflate (RFC 1950, and RFC 1951 as some servers send it). `WireError` where the
    data are damaged or end too early; no data at all are no content.
    """
    if encoding in PLAIN:
        yield from chunks
        return
    state = None
    for data in filter(None, chunks):
        while data:
            if state is None or state.eof:
                state = zlib.decompressobj(_window_bits(encoding, data))
            try:
                yield state.decompress(data)
            except zlib.error as error:
                raise WireError(f"the {encoding} data of the answer are damaged", connected=True) from error
            data = state.unused_data
    if state is not None and not state.eof:
        raise WireError(f"the answer was cut: its {encoding} data end too early", connected=True)


def as_text(data: bytes, charset: str | None) -> str:
    """Bytes as text; UTF-8 where the charset is none or not a usual one. A byte order mark is no part of the text."""
    if charset is None or not _CHARSETS.fullmatch(charset.lower().replace("_", "-")):
        charset = "utf-8"
    try:
        text = data.decode(charset, "replace")
    except LookupError:  # "iso-8859-99"
        text = data.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def _window_bits(encoding: str, data: bytes) -> int:
    """What zlib is told of the format. Raw deflate never begins with the method that a zlib header names in its first byte."""
    if encoding != "deflate":
        return zlib.MAX_WBITS | 16
    return zlib.MAX_WBITS if data[0] & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS
