"""MP4 films (H.264), written by the ffmpeg of the package imageio-ffmpeg."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linkwork.errors import LinkworkError, MissingPackageError
from linkwork.mechanism.names import plain, printable


def ffmpeg() -> str:
    """Return the path of ffmpeg; raise MissingPackageError if the package imageio-ffmpeg is missing."""
    try:
        import imageio_ffmpeg
    except ImportError:
        raise MissingPackageError(
            "a film as .mp4 needs the package imageio-ffmpeg, which is not installed: pip install "
            "'linkwork[film]'; an .svg needs no package"
        ) from None
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def write_mp4(path: Path, pictures: Sequence[np.ndarray], seconds: float) -> None:
    """Write pictures, (height, width, 3) bytes each, shown for `seconds` each."""
    height, width, _ = pictures[0].shape
    pad = ((0, height % 2), (0, width % 2), (0, 0))  # yuv420p needs even sizes
    data = b"".join(np.pad(picture, pad, mode="edge").tobytes() for picture in pictures)
    size = f"{width + width % 2}x{height + height % 2}"
    input_options = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", repr(1.0 / seconds), "-i", "-"]
    output_options = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", str(path.absolute())]
    done = subprocess.run(
        [ffmpeg(), "-y", "-loglevel", "error", *input_options, *output_options],
        input=data,
        capture_output=True,
    )
    if done.returncode:
        messages = done.stderr.decode(errors="replace").strip().splitlines()
        raise LinkworkError(
            f"film: ffmpeg cannot write {printable(path, 500)}: "
            f"{plain(messages[-1] if messages else 'it ended')}"
        )
