"""What the bytes of an audio file say of themselves before anything is decoded: its kind, and whether it is whole.

libsndfile reads what is there of a file that was cut off, and skips damaged parts of OGG, in silence; both are found here.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Literal

from aitest_lib.data.file_access import UnreadableFile

READ = "WAV, FLAC, OGG (Vorbis, Opus) or MP3"
CONVERT = "convert it to WAV or FLAC, e.g. with ffmpeg"
# Containers that are not read, by their first bytes (from a place on).
FOREIGN = (
    (4, b"ftyp", "M4A or MP4 (AAC)"),
    (0, b"\xff\xf1", "AAC"),
    (0, b"\xff\xf9", "AAC"),
    (0, b"\x1aE\xdf\xa3", "WebM or Matroska"),
    (0, b"#!AMR", "AMR"),
    (0, b"\x30\x26\xb2\x75", "WMA"),
    (0, b"FORM", "AIFF"),
    (0, b"caff", "CAF"),
    (0, b".snd", "AU"),
    (0, b"NIST_1A", "NIST SPHERE"),
)
POINTER = b"version https://git-lfs"
XING = re.compile(rb"(?:Xing|Info)\0\0\0[\0-\x0f]")  # with its flags: 1, it says how many frames; 2, how many bytes
STREAMED = 0x7FFF_F000  # sizes from here on are what programs write that do not know the size yet
REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


class UnreadableAudio(UnreadableFile):
    """Why one clip cannot be used, as a plain sentence. It is skipped and listed, and the run goes on."""


def check_whole(content: bytes) -> tuple[str, ...]:
    """Raises `UnreadableAudio` for bytes that are no audio that is read, or only a part of it; returns what is doubtful."""
    if not content:
        raise UnreadableAudio("it is empty (0 bytes)")
    if content.startswith(POINTER):
        raise UnreadableAudio("it is a Git LFS pointer instead of the file; fetch it with git lfs pull")
    for place, mark, kind in FOREIGN:
        if content[place : place + len(mark)] == mark:
            raise UnreadableAudio(f"its content is {kind}, expected {READ}; {CONVERT}")
    if content[:4] in (b"RIFF", b"RIFX", b"RF64") and content[8:12] == b"WAVE":
        _check_wave(content)
    if content.startswith((b"ID3", b"\xff")):
        _check_mp3(content)
    return _check_ogg(content) if content.startswith(b"OggS") else ()


def _check_wave(content: bytes) -> None:
    for name, start, size in _chunks(content, "big" if content.startswith(b"RIFX") else "little"):
        if name == b"data":
            there = len(content) - start
            if size == 0 and there > 1:
                raise UnreadableAudio(f"its header says that it has no samples, but {there:,} bytes follow; write it again")
            if size == 0:
                raise UnreadableAudio("it has no samples")
            if there < size < STREAMED:
                raise UnreadableAudio(f"it is cut off: its header says {size:,} bytes of samples, {there:,} are there")
            return


def _chunks(content: bytes, order: Literal["big", "little"]) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and size of each chunk of a RIFF file; RF64 keeps the size of its samples in a chunk of its own."""
    number = int.from_bytes
    place, long = 12, None
    while place + 8 <= len(content):
        name, size = content[place : place + 4], number(content[place + 4 : place + 8], order)
        if name == b"ds64":
            long = number(content[place + 16 : place + 24], "little")
        if name == b"data" and long is not None:
            size = long
        yield name, place + 8, size
        place += 8 + size + size % 2


def _check_mp3(content: bytes) -> None:
    """The first frame of most encoders holds the size of the stream (Xing or Info header); without it nothing is known."""
    start = 0
    if content.startswith(b"ID3") and len(content) > 10:
        start = 10 + sum(part << shift for part, shift in zip(content[6:10], (21, 14, 7, 0), strict=True))
    found = XING.search(content[start : start + 64])
    if found is None:
        return
    mark = start + found.end()
    frames, size = int(content[mark - 1] & 1), int(content[mark - 1] & 2)
    said = int.from_bytes(content[mark + 4 * frames : mark + 4 * frames + 4], "big") if size else 0
    if said > len(content):
        raise UnreadableAudio(f"it is cut off: its header says {said:,} bytes, {len(content):,} are there")


def _check_ogg(content: bytes) -> tuple[str, ...]:
    place, last = 0, False
    while content[place : place + 4] == b"OggS":
        segments = content[place + 27 : place + 27 + content[place + 26]] if place + 27 <= len(content) else b""
        end = place + 27 + len(segments) + sum(segments)
        if not segments or end > len(content):
            raise UnreadableAudio("it is cut off within a page of its data")
        page = content[place:end]
        if _ogg_checksum(page[:22] + bytes(4) + page[26:]) != int.from_bytes(page[22:26], "little"):
            raise UnreadableAudio("it is damaged: the checksum of a page of its data does not match")
        place, last = end, bool(page[5] & 4)
    return () if last else ("without an end mark (cut off?)",)


def _ogg_checksum(page: bytes) -> int:
    """The CRC-32 of Ogg (RFC 3533): that of zlib with its bits in the other order, and without its inversions."""
    mirrored = zlib.crc32(page.translate(REVERSED), 0xFFFF_FFFF) ^ 0xFFFF_FFFF
    return int(f"{mirrored:032b}"[::-1], 2)
