"""`linkwork study`: run a study from a file, resume it, and show the results in a folder."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linkwork.cli.robot import as_json
from linkwork.errors import StudyError


def run(args: argparse.Namespace) -> int:
    """Run or show a study; return 0 if every sample was computed and accepted."""
    if args.action == "show":
        return _show(args)
    from linkwork.studies import Study
    from linkwork.studies.files import load_study_file
    from linkwork.studies.storage import MANIFEST

    study = load_study_file(args.place)
    options = {"executor": args.executor, "workers": args.workers, "address": args.address}
    if args.folder and (Path(args.folder) / MANIFEST).exists():
        result = Study.resume(args.folder, study, **options)
    else:
        result = study.run(args.folder, **options)
    return _print_result(result, args)


def _show(args: argparse.Namespace) -> int:
    from linkwork.studies import Study
    from linkwork.studies.storage import read_manifest

    manifest = read_manifest(Path(args.place))
    if not args.json:
        models = ", ".join(f"{each['name']} ({each['digest'][:12]})" for each in manifest["models"])
        print(f"{manifest['study']}: {manifest['function']} of {models}, linkwork {manifest['linkwork']}")
        message = f"{manifest['sampler']['kind']}({', '.join(manifest['sampler']['quantities'])})"
        print(f"{message}, seed {manifest['seed']}, chunks of {manifest['chunk']}, rows: {manifest['rows']}")
    return _print_result(Study.results(args.place), args)


def _print_result(result: Any, args: argparse.Namespace) -> int:
    if args.json:
        full: dict[str, Any] = {"completed": result.completed, "samples": result.study.samples}
        full["status"] = {status.name: count for status, count in result.status.items()}
        full["results"] = {label: _plain(result[label]) for label in result} if result.status else {}
        print(as_json(full))
    else:
        print(result)
    if args.pictures:
        from linkwork.studies.summary import write_summary

        for path in write_summary(result, Path(args.pictures)):
            if not args.json:
                print(path)
    accepted = sum(n for status, n in result.status.items() if int(status) in result.study.accepted)
    return 0 if accepted == result.study.samples else 1


def _plain(value: Any) -> Any:
    """Return a result as lists and numbers."""
    if not is_dataclass(value) or isinstance(value, type):
        raise StudyError(f"study: cannot write {type(value).__name__} as JSON")
    return json.loads(
        json.dumps(asdict(value), default=lambda x: np.asarray(x).tolist()).replace("NaN", "null")
    )
