"""`PYTHONPATH=bench python -m papers {loops,constrained,flexible} [--out FOLDER] [--quick]`."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="papers", description="Reproduce the experiments of the papers.")
    parser.add_argument("paper", choices=("constrained", "flexible", "loops"), help="which experiments")
    parser.add_argument(
        "--out", default="out", type=Path, metavar="FOLDER", help="where tables and figures go (out)"
    )
    parser.add_argument("--quick", action="store_true", help="small mechanisms only, in seconds")
    args = parser.parse_args(argv)
    status: int = importlib.import_module(f"papers.{args.paper}").run(args.out, quick=args.quick)
    return status


if __name__ == "__main__":
    sys.exit(main())
