"""For all tests: kernels are cached in a folder of this run, never in the user's."""

from __future__ import annotations

import os
import tempfile

_folder = tempfile.TemporaryDirectory(prefix="linkwork-tests-", ignore_cleanup_errors=True)
os.environ["LINKWORK_CACHE"] = _folder.name  # before linkwork is imported; child processes inherit it
