"""Make docs/viewer.png: the viewer with a robot of loops, in a headless Chromium. Needs viser and Chromium.

python tools/viewer_screenshot.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/helpers"))

import chromium  # noqa: E402
import linkwork as lw  # noqa: E402


def main() -> None:
    with lw.view(lw.robots.delta(), port=9400) as viewer, tempfile.TemporaryDirectory() as folder:
        for slider, by in zip(viewer.sliders.sliders, (0.35, -0.2, 0.1)):
            viewer.move(slider.name, viewer.sliders.value(slider.name) + by)
        browser = chromium.Chromium(Path(folder))
        try:
            browser.call(
                "Emulation.setDeviceMetricsOverride", width=900, height=560, deviceScaleFactor=1, mobile=False
            )
            browser.go(viewer.url)
            chromium.until(lambda: browser.ask("document.querySelectorAll('[role=slider]').length"))
            time.sleep(4.0)
            browser.ask(
                "[...document.querySelectorAll('.mantine-Notification-closeButton')].forEach(each => each.click())"
            )
            time.sleep(3.0)
            (ROOT / "docs/viewer.png").write_bytes(browser.screenshot())
        finally:
            browser.close()


if __name__ == "__main__":
    main()
