"""GIF and PNG files, written by Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linkwork.errors import MissingPackageError

COLOURS = 255  # of a palette
SAMPLES = 12  # images that a palette is chosen from


def pillow() -> Any:
    """Return the module PIL.Image; raise MissingPackageError if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingPackageError(
            "films and pictures as .gif and .png need the package pillow, which is not installed: "
            "pip install 'linkwork[film]'; an .svg needs no package"
        ) from None
    return Image


def write_gif(path: Path, pictures: Sequence[np.ndarray], seconds: float) -> None:
    """Write an endless film of images (height, width, 3) of bytes, each displayed for some seconds."""
    palette = _palette(pictures)
    frames = [_reduced(picture, palette) for picture in pictures]
    milliseconds = max(20, 10 * round(100 * seconds))
    options: dict[str, Any] = {"duration": milliseconds, "loop": 0, "optimize": False}
    frames[0].save(path, format="GIF", save_all=True, append_images=frames[1:], **options)


def write_png(path: Path, picture: np.ndarray) -> None:
    """Write an image (height, width, 3) of bytes with a palette."""
    _reduced(picture, _palette([picture])).save(path, format="PNG", optimize=True)


def _palette(pictures: Sequence[np.ndarray]) -> Any:
    """Return an image whose palette suits all pictures."""
    subset = pictures[:: max(1, len(pictures) // SAMPLES)]
    return pillow().fromarray(np.concatenate(subset)).quantize(COLOURS)


def _reduced(picture: np.ndarray, palette: Any) -> Any:
    image = pillow()
    return image.fromarray(picture).quantize(palette=palette, dither=image.Dither.NONE)
