"""Studies in files: TOML, or Python that defines `study`."""

from __future__ import annotations

import os
import re
import runpy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import linkwork
from linkwork import studies
from linkwork.errors import LinkworkError, StudyError
from linkwork.functions.engine.model_function import ModelFunction

SAMPLERS = {
    "random": studies.Random,
    "latin_hypercube": studies.LatinHypercube,
    "sobol": studies.Sobol,
    "saltelli": studies.Saltelli,
}
STUDY_KEYS = ("samples", "seed", "chunk", "rows", "name")


def load_study_file(path: str | os.PathLike[str]) -> studies.Study:
    """Return the study of a file: FILE.toml, or FILE.py, which is executed and must define `study`."""
    file = Path(path)
    if not file.exists():
        raise StudyError(f"study: {file}: file not found")
    if file.suffix == ".toml":
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise StudyError(f"study: {file}: {error}") from None
        try:
            return study_from_table(content, file.parent)
        except StudyError as error:
            raise StudyError(f"study: {file}: {str(error).removeprefix('study: ')}") from None
    if file.suffix != ".py":
        raise StudyError(f"study: {file}: expected a file .py or .toml")
    try:
        result = runpy.run_path(str(file), run_name="linkwork_study").get("study")
    except LinkworkError:
        raise
    except Exception as error:
        raise StudyError(f"study: {file}: {type(error).__name__}: {error}") from error
    if not isinstance(result, studies.Study):
        raise StudyError(
            f"study: {file}: expected a variable `study` that is a lw.Study, got {type(result).__name__}"
        )
    return result


def study_from_table(content: Mapping[str, Any], folder: Path) -> studies.Study:
    """Return the study that a TOML table describes; model files are looked for in `folder`."""
    known = ("model", "sampler", "vary", "rollout", "function", "outputs", "reductions", *STUDY_KEYS)
    for name in content:
        if name not in known:
            raise StudyError(f"study: unknown key {name!r}; expected one of {', '.join(known)}")
    if "model" not in content or ("rollout" in content) == ("function" in content):
        raise StudyError("study: expected model, and either [rollout] or [function]")
    names = content["model"] if isinstance(content["model"], list) else [content["model"]]
    models = [_model(name, folder) for name in names]
    outputs = {name: _output(name, each) for name, each in _table(content, "outputs").items()}
    reductions = {name: _reduction(name, each) for name, each in _table(content, "reductions").items()}
    options = {name: content[name] for name in STUDY_KEYS if name in content}
    model = models[0] if len(models) == 1 else models
    return studies.Study(
        model, _sampler(content), _task(content), outputs=outputs, reductions=reductions, **options
    )


def _table(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a table of a file, empty where the file has none."""
    table = content.get(key, {})
    if not isinstance(table, Mapping):
        raise StudyError(f"study: {key}: expected a table [{key}], got {table!r}")
    return dict(table)


def _model(name: Any, folder: Path) -> Any:
    if not isinstance(name, str):
        raise StudyError(f"study: model: expected the name of a file or of a shipped robot, got {name!r}")
    if name in linkwork.robots.names():
        return getattr(linkwork.robots, name)()
    return linkwork.load(folder / name if (folder / name).exists() else name)


def _sampler(content: Mapping[str, Any]) -> studies.Sampler:
    options = _table(content, "sampler")
    kind = options.pop("kind", "random")
    vary = _table(content, "vary")
    if kind == "grid":
        return _called(studies.Grid, vary, **options)
    if not isinstance(kind, str) or kind not in SAMPLERS:
        raise StudyError(f"study: sampler: expected one of {', '.join([*SAMPLERS, 'grid'])}, got {kind!r}")
    return _called(
        SAMPLERS[kind], {name: _distribution(name, each) for name, each in vary.items()}, **options
    )


def _class_name(word: str) -> str:
    return "".join(part.capitalize() for part in word.split("_"))


def _distribution(name: str, definition: Any) -> studies.Distribution:
    """Return `{ uniform = [low, high] }`, or `{ scale = { uniform = [...] }, shared = true }`."""
    if not isinstance(definition, Mapping) or not definition:
        raise StudyError(
            f"study: vary: {name}: expected a distribution such as {{ uniform = [0, 1] }}, got {definition!r}"
        )
    word, *remaining = definition
    kind = getattr(studies, _class_name(word), None)
    if not (isinstance(kind, type) and issubclass(kind, studies.Distribution)):
        raise StudyError(f"study: vary: {name}: unknown distribution {word!r}")
    options = {other: definition[other] for other in remaining}
    inside = definition[word]
    if kind in (studies.Scale, studies.Offset):
        return _called(kind, _distribution(name, inside), **options)
    if kind in (studies.Choice, studies.Constant):
        return _called(kind, inside, **options)
    if isinstance(inside, Mapping):
        return _called(kind, **inside, **options)
    return _called(kind, *(inside if isinstance(inside, list) else [inside]), **options)


def _task(content: Mapping[str, Any]) -> Any:
    if "rollout" in content:
        return _called(studies.RolloutTask, **_table(content, "rollout"))
    options = _table(content, "function")
    function = _function(options.pop("name", None))
    arrays = _table(options, "arrays")
    options.pop("arrays", None)
    return _called(studies.FunctionTask, function, arrays, options)


def _function(name: Any) -> ModelFunction:
    result = (
        getattr(linkwork, name, None) if isinstance(name, str) and re.fullmatch(r"[a-z_]+", name) else None
    )
    if not isinstance(result, ModelFunction):
        raise StudyError(f"study: expected the name of a function of a model, got {name!r}")
    return result


def _output(name: str, definition: Any) -> Any:
    """Return a name, or a function of the last state: "kinetic_energy", or a table with its options."""
    if isinstance(definition, Mapping):
        options = dict(definition)
        return _called(studies.Final, _function(options.pop("function", None)), options)
    if isinstance(definition, str) and isinstance(getattr(linkwork, definition, None), ModelFunction):
        return _called(studies.Final, _function(definition))
    return definition


def _reduction(name: str, definition: Any) -> studies.Reduction:
    """Return `{ mean = "energy" }`, with further options after it."""
    if isinstance(definition, str):
        definition = {definition: None}
    if not isinstance(definition, Mapping) or not definition:
        raise StudyError(
            f"study: reductions: {name}: expected a table such as {{ mean = 'energy' }}, got {definition!r}"
        )
    word, *remaining = definition
    kind = getattr(studies, _class_name(word), None)
    if not (isinstance(kind, type) and issubclass(kind, studies.Reduction)) or kind is studies.Reduction:
        raise StudyError(f"study: reductions: {name}: unknown reduction {word!r}")
    return _called(
        kind,
        *([] if definition[word] is None else [definition[word]]),
        **{other: definition[other] for other in remaining},
    )


def _called(kind: Any, *arguments: Any, **named: Any) -> Any:
    """Return kind(...), with wrong names of arguments as one error."""
    try:
        return kind(*arguments, **named)
    except TypeError as error:
        reason = str(error).removeprefix(f"{kind.__name__}.__init__() ")
        raise StudyError(f"study: {kind.__name__}: {reason}") from None
