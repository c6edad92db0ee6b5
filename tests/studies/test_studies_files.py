"""Studies of files, the command `linkwork study`, and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from linkwork import studies
from linkwork.cli.cli import main
from linkwork.studies.files import load_study_file

TOML = """
model = "arm"
samples = 1500
seed = 4
name = "swing"

[vary]
"mass" = { scale = { uniform = [0.5, 2.0] }, shared = true }
dq = { normal = { mean = 0.0, std = 0.5 } }
"v@elbow_pitch" = { uniform = [-1.0, 1.0] }

[rollout]
dt = 2e-3
steps = 20

[outputs]
energy = "kinetic_energy"
tip = { function = "frame_pose", frame = "FRAME" }
v = "v"

[reductions]
mean = { mean = "energy" }
worst = { extremes = "energy", count = 2 }
spread = { quantiles = "energy", probabilities = [0.5], method = "exact" }
all = "success_rate"
"""

GRID = """
model = "arm"
sampler = { kind = "grid" }
function = { name = "gravity_force" }
outputs = { force = "out" }

[vary]
gravity = [[0.0, 0.0, -9.0], [0.0, 0.0, -10.0]]
"""

PYTHON = """
import linkwork as lw
from linkwork import studies

def speed(batch):
    return batch.v[:, -1, 0]

study = lw.Study(lw.robots.chain(2), studies.Random({"dq": studies.Normal(0.0, 0.5)}), studies.RolloutTask(2e-3, 10),
                 samples=1500, outputs={"speed": speed}, reductions=[studies.Mean("speed")], name="swing")
"""


def written(tmp_path: Path, text: str, name: str = "study.toml") -> Path:
    path = tmp_path / name
    path.write_text(text.replace("FRAME", lw.robots.arm().bodies[-1].name))
    return path


def test_a_toml_file_is_the_study_that_it_describes(tmp_path: Path) -> None:
    study = load_study_file(written(tmp_path, TOML))
    quantities = {
        "mass": studies.Scale(studies.Uniform(0.5, 2.0), shared=True),
        "dq": studies.Normal(0.0, 0.5),
        "v@elbow_pitch": studies.Uniform(-1.0, 1.0),
    }
    model = lw.robots.arm()
    outputs = {
        "energy": studies.Final(lw.kinetic_energy),
        "tip": studies.Final(lw.frame_pose, {"frame": model.bodies[-1].name}),
        "v": "v",
    }
    expected = lw.Study(
        model,
        studies.Random(quantities),
        studies.RolloutTask(dt=2e-3, steps=20),
        samples=1500,
        seed=4,
        outputs=outputs,
    )
    for name in ("model", "sampler", "task", "outputs", "seed", "samples"):
        assert study.parts[name] == expected.parts[name], name
    assert list(study.reductions) == ["mean", "worst", "spread", "all"]
    rows = load_study_file(written(tmp_path, GRID, "grid.toml")).evaluate(0, 2)
    np.testing.assert_allclose(rows.outputs["force"][1], rows.outputs["force"][0] * 10 / 9)


MISTAKES = [
    ("model = ", "model = \n"),
    ('model = "arm"', "model = 3"),
    ("samples = 1500", "sample = 1500"),
    ("steps = 20", "step = 20"),
    ("uniform = [-1.0, 1.0]", "uniformly = [-1.0, 1.0]"),
    ("uniform = [-1.0, 1.0]", "uniform = [-1.0, 1.0, 2.0]"),
    ('"kinetic_energy"', '"load"'),
    ('"frame_pose"', '"frame_pos"'),
    ("{ mean =", "{ average ="),
    ("count = 2", "counts = 2"),
    ("[rollout]", "[rollouts]"),
    ('all = "success_rate"', "all = 3"),
    ("uniform = [-1.0, 1.0]", 'uniform = "wide"'),
    *((f"[{name}]", f"[[{name}]]") for name in ("vary", "rollout", "outputs", "reductions")),
]


@pytest.mark.parametrize(("old", "new"), MISTAKES, ids=[new.strip() for _, new in MISTAKES])
def test_mistakes_in_toml_files_are_one_error(old: str, new: str, tmp_path: Path) -> None:
    path = written(tmp_path, TOML.replace(old, new, 1))
    with pytest.raises(lw.LinkworkError) as found:
        load_study_file(path).run(progress=False)
    assert "\n" not in str(found.value)


def test_the_command_runs_continues_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'linkwork[study]'")
    file = str(written(tmp_path, PYTHON, "swing.py"))
    folder = str(tmp_path / "out")
    assert main(["study", "run", file, "--folder", folder]) == 0
    first = capsys.readouterr().out
    assert "1500 of 1500 samples" in first and "mean(speed)" in first
    chunks = sorted(Path(folder).glob("chunk-*.parquet"))
    chunks[0].unlink()
    assert main(["study", "show", folder, "--json"]) == 1  # not complete
    told = json.loads(capsys.readouterr().out)
    assert told["completed"] == 0 and told["samples"] == 1500
    assert main(["study", "run", file, "--folder", folder, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == {"OK": 1500} and told["results"]["mean(speed)"]["count"] == 1500
    assert main(["study", "show", folder]) == 0
    shown = capsys.readouterr().out
    assert "swing: RolloutTask of chain" in shown and "seed 0" in shown
    assert main(["study", "show", str(tmp_path)]) == 3 and "holds no study" in capsys.readouterr().err
    assert (
        main(["study", "run", str(tmp_path / "none.py")]) == 3 and "file not found" in capsys.readouterr().err
    )
    for text, message in (("x = 1", "variable `study`"), ("1 / 0", "nothing.py: ZeroDivisionError")):
        nothing = written(tmp_path, text, "nothing.py")
        assert main(["study", "run", str(nothing)]) == 3 and message in capsys.readouterr().err


def test_pictures_and_films_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from linkwork.studies.summary import write_summary

    study = lw.Study(
        lw.robots.chain(2),
        studies.Random({"dq": studies.Normal(0.0, 0.5)}),
        studies.RolloutTask(dt=2e-3, steps=3),
        samples=300,
        outputs={"energy": studies.Final(lw.kinetic_energy), "v": "v"},
        reductions=[studies.Extremes("energy", 2)],
    )
    result = study.run(progress=False)
    found = {path.name for path in write_summary(result, tmp_path / "pictures")}
    ends = result["extremes(energy)"]
    both = {"smallest": ends.smallest_samples[0], "largest": ends.largest_samples[0]}
    films = {f"extremes_energy_{end}_{index}.gif" for end, index in both.items()}
    assert found == {"distributions.png", "pairs.png"} | films
    assert all((tmp_path / "pictures" / name).stat().st_size > 1000 for name in found)
