"""Distances of random pairs of convex shapes against certificates and Coal.

    PYTHONPATH=src:tests/helpers python tests/helpers/distance_sweep.py [--poses 100000] [--seed 0]
    [--poses-per-size 1000] [--dtype float64] [--coal 0] [--pairs box-cylinder,...]

All ordered pairs of sphere, capsule, box, cylinder, ellipsoid and hull; sizes that are similar, mixed (1 mm to
10 m) and rounded; poses that are apart, touching, overlapping, flush, parallel and concentric. `--poses 1000000`
for a million in all. The errors are those of `distance_certificates`; `--coal n` also compares every n-th pose
with Coal, where Coal's own result is no better than a certificate allows.

Per pair and kind of size that has wrong ones: wrong poses of all poses, the kind of the worst error, that
error [m], and the sizes and the pose. Last the number of poses and of wrong ones.
"""

from __future__ import annotations

import argparse
from itertools import product as combinations

import numpy as np

from coal_distances import coal_distance
from distance_certificates import (
    KINDS,
    Array,
    Solid,
    allowed,
    distance_errors,
    random_poses,
    random_solid,
    rotations,
)


def deeper_than_coal(one: Solid, other: Solid, q: Array, distance: Array) -> Array:
    """Return how much shorter translations by Coal are, and how much nearer shapes that are apart, (N,).

    Coal's distance is that of two points of the shapes where they are apart, and its depth is the length of a
    translation, so smaller results are wrong to within Coal's tolerance.
    """
    R = rotations(q[:, 3:])
    result = np.zeros(len(q))
    for k, gap in enumerate(distance):
        coal, _ = coal_distance(one.kind, one.size, other.kind, other.size, R[k], q[k, :3])
        result[k] = gap - coal if gap > 0.0 else coal - gap
    return np.maximum(result, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--poses", type=int, default=100_000)
    parser.add_argument("--poses-per-size", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--coal", type=int, default=0)
    parser.add_argument("--pairs", default="")
    options = parser.parse_args()
    chosen = [tuple(pair.split("-")) for pair in options.pairs.split(",") if pair]
    pairs = chosen or list(combinations(KINDS, KINDS))
    rng = np.random.default_rng(options.seed)
    total = wrong_total = coal_total = coal_wrong = 0
    largest = 0.0
    while total < options.poses:
        for one_kind, other_kind in pairs:
            for sizes in ("similar", "mixed", "rounded"):
                one, other = (random_solid(kind, rng, sizes) for kind in (one_kind, other_kind))
                q = random_poses(one, other, rng, options.poses_per_size)
                distance, errors = distance_errors(one, other, q, rng, options.dtype)
                bound = allowed(one, other, options.dtype)
                worst = np.max([np.nan_to_num(error, nan=np.inf) for error in errors.values()], axis=0)
                wrong = worst > bound
                total += len(q)
                wrong_total += int(wrong.sum())
                largest = max(largest, float(worst[~wrong].max(initial=0.0)))
                if wrong.any():
                    k = int(np.argmax(worst))
                    kind = max(errors, key=lambda name: float(np.nan_to_num(errors[name][k], nan=np.inf)))
                    print(
                        f"{one_kind}-{other_kind} {sizes}: {wrong.sum()} of {len(q)}, {kind} {worst[k]:.1e} m, "
                        f"distance {distance[k]:.3g} m: {one.size} {other.size} {q[k].tolist()}",
                        flush=True,
                    )
                if options.coal:
                    error = deeper_than_coal(one, other, q[:: options.coal], distance[:: options.coal])
                    coal_total += len(error)
                    coal_wrong += int((error > max(bound, 1e-7)).sum())
    print(f"{total} poses, {wrong_total} wrong, the others within {largest:.1e} m")
    if options.coal:
        print(f"{coal_total} poses by Coal, {coal_wrong} for which Coal has a smaller distance or depth")


if __name__ == "__main__":
    main()
