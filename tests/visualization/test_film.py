"""Pictures of models: loop rods are drawn, nearer solids hide farther ones, edges are smooth, planar scenes
face the camera.
"""

from __future__ import annotations

import numpy as np

import linkwork as lw
from linkwork.visualization.film import ROD_COLOUR, _camera, _ground, _poses, _solids
from linkwork.visualization.render import camera_for, reduced, smooth_pixels
from linkwork.visualization.scene import scene
from linkwork.visualization.shapes import box


def rod_linkage() -> lw.Model:
    builder = lw.ModelBuilder("crank, rod and rocker")
    hinge = lw.joints.Revolute((0, 1, 0))
    for name, x in (("crank", 0.0), ("rocker", 1.0)):
        builder.add_body(name, mass=1.0, center=(0, 0, 0.1), inertia=(0.01, 0.01, 0.01))
        builder.add_joint(f"{name} pin", hinge, parent="world", child=name, xyz=(x, 0, 0))
        builder.add_frame(f"{name} tip", body=name, xyz=(0, 0, 0.5))
    ends = {"xyz": (0, 0, 0.5), "successor_xyz": (0, 0, 0.5)}
    return builder.add_loop(
        "link", lw.joints.Rod(1.0), predecessor="crank", successor="rocker", **ends
    ).build()


def test_rods_of_loops_are_drawn_between_their_ends() -> None:
    seen = scene(rod_linkage())
    poses = _poses(seen.model, seen.model.neutral()[None])
    rods = [mesh.vertices for mesh, colour in _solids(seen, poses[0]) if colour == ROD_COLOUR]
    assert np.ptp(np.concatenate(rods)[:, 0]) > 1.0  # from tip to tip
    camera = _camera(seen, poses, 160, 120)
    ground = _ground(seen, poses, camera)
    picture = smooth_pixels(camera, _solids(seen, poses[0]), ground, reduced(ground)).astype(int)
    dark = picture.max(axis=-1) < 110  # no body is as dark as a rod
    assert np.ptp(np.nonzero(dark)[1]) > 60


def test_nearer_solids_hide_farther_ones_where_they_intersect() -> None:
    """A long bar through a box is hidden inside of it, though the mean of its corners is nearer than those of
    the box.
    """
    cube = box(np.ones(3))
    bar = box(np.array([0.2, 3.0, 0.2]))
    camera = camera_for(np.array([-1.5, -1.5, -1.5]), np.array([1.5, 1.5, 1.5]), 120, 120)
    white = np.full((240, 240, 3), 255, dtype=np.uint8)
    solids = [(cube, (255, 0, 0)), (bar, (0, 0, 255))]
    one = smooth_pixels(camera, solids, white, reduced(white))
    other = smooth_pixels(camera, solids[::-1], white, reduced(white))
    assert np.array_equal(one, other)
    (x,), (y,) = camera.see(np.array([[0.3, -0.5, 0.3]]))[0].round().astype(int).T
    assert one[y, x, 0] > 150 and one[y, x, 2] < 50  # a point of the box beside the bar


def test_edges_are_smooth() -> None:
    camera = camera_for(-np.ones(3), np.ones(3), 100, 100)
    white = np.full((200, 200, 3), 255, dtype=np.uint8)
    picture = smooth_pixels(camera, [(box(np.ones(3)), (0, 0, 0))], white, reduced(white))
    assert {0, 255} < set(np.unique(picture)) and ((picture > 40) & (picture < 215)).any()


def test_a_planar_mechanism_faces_the_camera() -> None:
    for axis in range(3):
        extent = np.ones(3)
        extent[axis] = 0.01
        camera = camera_for(-extent, extent, 100, 100)
        assert abs(camera.axes[2, axis]) > 0.9
