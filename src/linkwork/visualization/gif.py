"""GIF files of pictures that change: one palette for all, and of each picture only the part that has changed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

COLOURS = 255  # of the palette; the one after them means: as before


def write_gif(path: Path, pictures: Sequence[np.ndarray], seconds: float) -> None:
    """Write pictures, each (height, width, 3) of bytes, that follow each other after so many seconds, over
    and over.
    """
    height, width, _ = pictures[0].shape
    colours = palette(pictures)
    table = np.zeros((256, 3), dtype=np.uint8)
    table[: len(colours)] = colours
    delay = max(2, round(100 * seconds))
    parts = [b"GIF89a", struct.pack("<HHBBB", width, height, 0xF7, 0, 0), table.tobytes()]
    parts.append(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")  # again and again
    before: np.ndarray | None = None
    for picture in pictures:
        numbers = nearest_colours(picture, colours)
        x0 = 0
        y0 = 0
        x1 = width
        y1 = height
        displayed = numbers
        if before is not None:
            changed = numbers != before
            rows = np.nonzero(changed.any(axis=1))[0]
            columns = np.nonzero(changed.any(axis=0))[0]
            x0, x1 = (int(columns[0]), int(columns[-1]) + 1) if len(columns) else (0, 1)
            y0, y1 = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 1)
            displayed = np.where(changed, numbers, COLOURS)
        parts.append(b"\x21\xf9\x04" + struct.pack("<BHB", 0x05, delay, COLOURS) + b"\x00")
        parts.append(b"\x2c" + struct.pack("<HHHHB", x0, y0, x1 - x0, y1 - y0, 0))
        parts.append(b"\x08" + _blocks(_lzw(displayed[y0:y1, x0:x1].tobytes())))
        before = numbers
    path.write_bytes(b"".join([*parts, b"\x3b"]))


def _codes(picture: np.ndarray) -> np.ndarray:
    """A colour as one number, with five bits for each of its parts."""
    five = picture.astype(np.int64) >> 3
    return (five[..., 0] << 10) | (five[..., 1] << 5) | five[..., 2]


def palette(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """The colours that are seen most, (n, 3), at most 255."""
    subset = pictures[:: max(1, len(pictures) // 12)]
    counts = sum(
        (np.bincount(_codes(picture).ravel(), minlength=1 << 15) for picture in subset),
        np.zeros(1 << 15, dtype=int),
    )
    most = np.argsort(-counts, kind="stable")[:COLOURS]
    most = most[counts[most] > 0]
    return np.stack([(most >> 10) & 31, (most >> 5) & 31, most & 31], axis=1).astype(np.uint8) * 8 + 4


def nearest_colours(picture: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """The number of the nearest colour of the palette for each pixel."""
    codes = _codes(picture)
    used = np.flatnonzero(np.bincount(codes.ravel(), minlength=1 << 15))
    seen = np.stack([(used >> 10) & 31, (used >> 5) & 31, used & 31], axis=1) * 8 + 4
    off = ((seen[:, None, :].astype(int) - colours[None, :, :].astype(int)) ** 2).sum(axis=2)
    numbers = np.zeros(1 << 15, dtype=np.uint8)
    numbers[used] = off.argmin(axis=1)
    return numbers[codes]


def _lzw(data: bytes) -> bytes:
    """Variable-length codes of eight-bit values (Lempel, Ziv and Welch), as GIF has them."""
    clear = 256
    end = 257
    table = {bytes([k]): k for k in range(256)}
    out = bytearray()
    bits = 0
    held = 0
    size = 9
    after = 258

    def put(code: int) -> None:
        nonlocal bits, held
        bits |= code << held
        held += size
        while held >= 8:
            out.append(bits & 255)
            bits >>= 8
            held -= 8

    put(clear)
    word = b""
    for k in range(len(data)):
        longer = word + data[k : k + 1]
        if longer in table:
            word = longer
            continue
        put(table[word])
        if after < 4096:
            table[longer] = after
            after += 1
            if after > 1 << size and size < 12:
                size += 1
        else:
            put(clear)
            table = {bytes([k]): k for k in range(256)}
            size = 9
            after = 258
        word = data[k : k + 1]
    if word:
        put(table[word])
    put(end)
    if held:
        out.append(bits & 255)
    return bytes(out)


def _blocks(data: bytes) -> bytes:
    return (
        b"".join(bytes([len(part)]) + part for part in (data[k : k + 255] for k in range(0, len(data), 255)))
        + b"\x00"
    )
