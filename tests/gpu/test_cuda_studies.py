"""Studies on a GPU: samples drawn and reduced there have the bits of the CPU."""

from __future__ import annotations

from typing import Any

import pytest

import linkwork as lw
from linkwork import studies

pytest.importorskip("cuda.bindings", reason="no cuda-bindings")
cupy = pytest.importorskip("cupy", reason="no CuPy")
try:
    cupy.cuda.runtime.getDeviceCount()
except Exception:
    pytest.skip("no GPU", allow_module_level=True)

VARIED: dict[str, Any] = {
    "uniform": {"q": studies.Uniform(-1.0, 1.0), "mass@hand": studies.LogUniform(0.5, 3.0)},
    "normal": {"dq": studies.Normal(0.0, 0.2), "v": studies.TruncatedNormal(0.0, 1.0, [5.0] * 7, 9.0)},
    "relative": {
        "damping": studies.Scale(studies.LogNormal(1.0, 0.5), shared=True),
        "gravity": studies.Offset(studies.Normal(0.0, 0.1)),
        "v": studies.Choice([0.0, 1.0, 1e300]),
        "tau": studies.Exponential(0.1),
    },
}


@pytest.mark.parametrize("name", VARIED)
def test_studies_have_the_bits_of_the_cpu(name: str) -> None:
    arm = lw.robots.arm()
    results = []
    for device in (None, "cuda"):
        energy = [studies.Mean, studies.Variance, studies.Quantiles, studies.Extremes]
        study = lw.Study(
            arm,
            studies.Random(VARIED[name]),
            studies.RolloutTask(1e-3, 20, device=device),
            samples=5000,
            outputs={"energy": studies.Final(lw.kinetic_energy), "v": "v"},
            reductions=[*(kind("energy") for kind in energy), studies.Mean("v"), studies.SuccessRate()],
            chunk=2048,
        )
        results.append(study.run(progress=False))
    expected, found = results
    assert found.status == expected.status and found.state_bytes() == expected.state_bytes()
