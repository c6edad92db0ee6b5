"""Python code in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from waiting import PATIENCE

SOURCE = str(Path(__file__).resolve().parents[2] / "src")


def run_python(
    code: str, *, timeout: float = PATIENCE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run code with this checkout's linkwork and some environment variables, and return what it printed."""
    env = {**os.environ, "PYTHONPATH": SOURCE, **environment}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
