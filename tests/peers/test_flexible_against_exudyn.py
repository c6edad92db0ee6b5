"""Flexible bodies against Exudyn: the same modal data in its floating frame, and its beams in absolute
coordinates.

Exudyn (Gerstmayr) has redundant coordinates and constraints; its results are extrapolated from two step sizes
of a method of second order. Its gravity as a mass-proportional load is not used: on a body that is turned and
deformed it differs from the sum of the nodes' weights, which are loads at all nodes here.
"""

from __future__ import annotations

from itertools import pairwise
from math import comb

import numpy as np
import pytest

import linkwork as lw

exu = pytest.importorskip("exudyn", reason="exudyn is not installed: pip install exudyn scipy")
pytest.importorskip("scipy", reason="scipy is not installed: pip install scipy")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
fx = lw.flexible
GRAVITY = (0.0, -9.81, 0.0)
LENGTH = 1.0
WIDTH = 0.01


def modal_data(EI=20.0, mass=0.6, stations=9, modes=2):
    """A rod of masses at four corners of some sections, which bends in powers of x; the last node is the
    middle of its tip.
    """
    points = []
    masses = []
    shapes = []
    slopes = []
    for i, x in enumerate(np.linspace(0.0, LENGTH, stations)):
        own = mass / (stations - 1) * (0.5 if i in (0, stations - 1) else 1.0)
        for y, z in ((WIDTH, WIDTH), (-WIDTH, WIDTH), (-WIDTH, -WIDTH), (WIDTH, -WIDTH)):
            points.append((x, y, z))
            masses.append(own / 4)
    points.append((LENGTH, 0.0, 0.0))
    masses.append(0.0)
    for x, y, _ in points:
        s, d = np.zeros((2, 3, modes))
        for j in range(modes):
            s[:, j] = (-y * (j + 2) * x ** (j + 1), x ** (j + 2), 0.0)
            d[2, j] = (j + 2) * x ** (j + 1)
        shapes.append(s)
        slopes.append(d)
    power = np.arange(2, modes + 2)
    K = EI * np.array([[4 * comb(a, 2) * comb(b, 2) / (a + b - 3) for b in power] for a in power])
    return {
        "points": np.array(points),
        "masses": np.array(masses),
        "shapes": np.array(shapes),
        "slopes": np.array(slopes),
        "stiffness": K,
    }


def add_flexible(mbs, data, **where):
    """The same body in Exudyn: (object, node of its frame)."""
    from exudyn import FEM
    from exudyn.itemInterface import Force, MarkerSuperElementPosition
    from scipy.sparse import csr_matrix

    n = len(data["points"])
    fem = FEM.FEMinterface()
    fem.nodes = {"Position": data["points"]}
    fem.massMatrix = csr_matrix(np.kron(np.diag(data["masses"]), np.eye(3)))
    fem.stiffnessMatrix = csr_matrix((3 * n, 3 * n))
    fem.modeBasis = {"matrix": data["shapes"].reshape(3 * n, -1).copy(), "type": "NormalModes"}
    cms = FEM.ObjectFFRFreducedOrderInterface(fem)
    cms.stiffnessMatrixReduced = np.array(data["stiffness"])
    made = cms.AddObjectFFRFreducedOrder(mbs, **where)
    body = made["oFFRFreducedOrder"]
    for k, m in enumerate(data["masses"]):
        if m:
            marker = mbs.AddMarker(
                MarkerSuperElementPosition(bodyNumber=body, meshNodeNumbers=[k], weightingFactors=[1.0])
            )
            mbs.AddLoad(Force(markerNumber=marker, loadVector=[m * g for g in GRAVITY]))
    return body, made["nRigidBody"]


def simulated(build, step, duration=1.0, rows=10, exact=True):
    """Positions that a sensor saw, (rows + 1, 3), of a system that `build` makes."""
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    sensor = build(mbs)
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = round(duration / step)
    settings.timeIntegration.endTime = duration
    settings.timeIntegration.verboseMode = 0
    settings.solutionSettings.writeSolutionToFile = False
    settings.solutionSettings.sensorsWritePeriod = duration / rows
    settings.timeIntegration.generalizedAlpha.spectralRadius = 1.0 if exact else 0.8
    if exact:
        settings.timeIntegration.newton.relativeTolerance = 1e-10
        settings.timeIntegration.newton.absoluteTolerance = 1e-12
    assert mbs.SolveDynamic(settings)
    return mbs.GetSensorStoredData(sensor)[:, 1:]


def extrapolated(build, step, **more):
    coarse = simulated(build, step, **more)
    fine = simulated(build, step / 2, **more)
    return (4 * fine - coarse) / 3


def ours(model, frame, q, v, dt, duration=1.0, rows=10):
    steps = round(duration / dt)
    log = lw.rollout(
        model, q, v, np.zeros(model.nv), dt=dt, steps=steps, integrator="rk4", record_every=steps // rows
    )
    return lw.frame_pose(model, log.q, frame=frame)[:, :3, 3]


def sensor(mbs, body, node):
    from exudyn.itemInterface import SensorSuperElement

    kind = exu.OutputVariableType.Position
    return mbs.AddSensor(
        SensorSuperElement(bodyNumber=body, meshNodeNumber=node, outputVariableType=kind, storeInternal=True)
    )


def test_a_flexible_pendulum_moves_as_in_exudyn():
    from exudyn.itemInterface import GenericJoint, MarkerBodyRigid, MarkerNodeRigid, ObjectGround

    data = modal_data()
    b = lw.ModelBuilder("pendulum", gravity=GRAVITY)
    b.add_body(flexible=fx.from_nodes("rod", **data))
    b.add_joint("hinge", lw.joints.Revolute((0, 0, 1)), parent="world", child="rod")
    b.add_frame("tip", body="rod", xyz=(LENGTH, 0, 0))
    model = b.build()

    def build(mbs):
        body, frame = add_flexible(mbs, data)
        ground = mbs.AddMarker(MarkerBodyRigid(bodyNumber=mbs.AddObject(ObjectGround())))
        held = mbs.AddMarker(MarkerNodeRigid(nodeNumber=frame))
        mbs.AddObject(GenericJoint(markerNumbers=[ground, held], constrainedAxes=[1, 1, 1, 1, 1, 0]))
        return sensor(mbs, body, len(data["points"]) - 1)

    found = ours(model, "tip", model.neutral(), np.zeros(model.nv), 1e-4)
    assert np.abs(found[:, :2]).max() > 0.5  # it swings
    np.testing.assert_allclose(found, extrapolated(build, 2e-4), atol=1e-6 * LENGTH)


def test_a_flexible_slider_crank_moves_as_in_exudyn():
    from exudyn.itemInterface import (
        Force,
        GenericJoint,
        MarkerBodyPosition,
        MarkerBodyRigid,
        MarkerNodeRigid,
        MarkerSuperElementPosition,
        ObjectGround,
        SphericalJoint,
    )
    from exudyn.utilities import RigidBodyInertia

    data = modal_data(EI=60.0)
    crank = 0.3
    speed = 6.0
    b = lw.ModelBuilder("slider crank", gravity=GRAVITY)
    b.add_body("crank", mass=1.0, inertia=(0.03, 0.03, 0.05))
    b.add_body(flexible=fx.from_nodes("rod", **data))
    b.add_body("slider", mass=0.5, inertia=(0.01, 0.01, 0.01))
    b.add_joint("crank", lw.joints.Revolute((0, 0, 1)), parent="world", child="crank", independent=True)
    b.add_joint(
        "pin",
        lw.joints.Revolute((0, 0, 1)),
        parent="crank",
        child="rod",
        xyz=(crank, 0, 0),
        independent=False,
    )
    guide = lw.joints.Prismatic((1, 0, 0))
    b.add_joint("guide", guide, parent="world", child="slider", xyz=(crank + LENGTH, 0, 0), independent=False)
    b.add_loop(
        "wrist", lw.joints.Revolute((0, 0, 1)), predecessor="rod", successor="slider", xyz=(LENGTH, 0, 0)
    )
    b.add_frame("middle", body="rod", xyz=data["points"][16])
    model = b.build()
    v = np.zeros(model.nv)
    v[model.v_names.index("crank")] = speed
    found = ours(model, "middle", model.neutral(), v, 5e-5)
    turn = lw.spanning_velocity(model, model.neutral(), v)[1] + speed

    def build(mbs):
        ground = mbs.AddObject(ObjectGround())
        zero, far = (
            mbs.AddMarker(MarkerBodyRigid(bodyNumber=ground, localPosition=[x, 0, 0]))
            for x in (0.0, crank + LENGTH)
        )

        def rigid(mass, moment, x, w):
            inertia = RigidBodyInertia(mass=mass, inertiaTensor=np.diag(moment), com=[0, 0, 0])
            made = mbs.CreateRigidBody(
                referencePosition=[x, 0, 0], inertia=inertia, initialAngularVelocity=[0, 0, w]
            )
            mbs.AddLoad(
                Force(
                    markerNumber=mbs.AddMarker(MarkerBodyPosition(bodyNumber=made)),
                    loadVector=[mass * g for g in GRAVITY],
                )
            )
            return made

        wheel = rigid(1.0, (0.03, 0.03, 0.05), 0.0, speed)
        slider = rigid(0.5, (0.01, 0.01, 0.01), crank + LENGTH, 0.0)
        where = {
            "positionRef": [crank, 0, 0],
            "initialVelocity": [0, crank * speed, 0],
            "initialAngularVelocity": [0, 0, turn],
        }
        body, frame = add_flexible(mbs, data, **where)
        hub, pin = (
            mbs.AddMarker(MarkerBodyRigid(bodyNumber=wheel, localPosition=[x, 0, 0])) for x in (0.0, crank)
        )
        root = mbs.AddMarker(MarkerNodeRigid(nodeNumber=frame))
        block = mbs.AddMarker(MarkerBodyRigid(bodyNumber=slider))
        corners = [k for k in range(36) if data["points"][k][0] == LENGTH]
        tip = mbs.AddMarker(
            MarkerSuperElementPosition(bodyNumber=body, meshNodeNumbers=corners, weightingFactors=[0.25] * 4)
        )
        mbs.AddObject(GenericJoint(markerNumbers=[zero, hub], constrainedAxes=[1, 1, 1, 1, 1, 0]))
        mbs.AddObject(GenericJoint(markerNumbers=[pin, root], constrainedAxes=[1, 1, 1, 1, 1, 0]))
        mbs.AddObject(GenericJoint(markerNumbers=[far, block], constrainedAxes=[0, 1, 1, 1, 1, 1]))
        mbs.AddObject(SphericalJoint(markerNumbers=[block, tip], constrainedAxes=[1, 1, 0]))
        from exudyn.itemInterface import SensorSuperElement

        kind = exu.OutputVariableType.Position
        return mbs.AddSensor(
            SensorSuperElement(
                bodyNumber=body, meshNodeNumber=16, outputVariableType=kind, storeInternal=True
            )
        )

    np.testing.assert_allclose(found, extrapolated(build, 2e-4), atol=1e-6 * LENGTH)


def test_a_soft_pendulum_is_that_of_beams_in_absolute_coordinates():
    """Against cubic elements in absolute nodal coordinates (ANCF), which know no floating frame and no modes."""
    from exudyn.itemInterface import (
        Cable2D,
        CoordinateConstraint,
        LoadMassProportional,
        MarkerBodyMass,
        MarkerNodeCoordinate,
        NodePoint2DSlope1,
        NodePointGround,
        SensorNode,
    )

    section, material, elements = fx.Rectangle(0.02, 0.02), fx.Material(2000.0, 2.0e9), 24
    b = lw.ModelBuilder("pendulum", gravity=GRAVITY)
    b.add_body(
        flexible=fx.beam("rod", length=LENGTH, section=section, material=material, modes={"bending_y": 4})
    )
    b.add_joint("hinge", lw.joints.Revolute((0, 0, 1)), parent="world", child="rod")
    b.add_frame("tip", body="rod", xyz=(LENGTH, 0, 0))
    model = b.build()

    def build(mbs):
        h = LENGTH / elements
        nodes = [
            mbs.AddNode(NodePoint2DSlope1(referenceCoordinates=[k * h, 0, 1, 0])) for k in range(elements + 1)
        ]
        physics = {
            "physicsLength": h, "physicsMassPerLength": 2000.0 * section.area,
            "physicsBendingStiffness": 2.0e9 * section.Iz, "physicsAxialStiffness": 2.0e9 * section.area,
        }  # fmt: skip
        for pair in pairwise(nodes):
            cable = mbs.AddObject(Cable2D(nodeNumbers=list(pair), **physics))
            middle = mbs.AddMarker(MarkerBodyMass(bodyNumber=cable))
            mbs.AddLoad(LoadMassProportional(markerNumber=middle, loadVector=list(GRAVITY)))
        ground = mbs.AddMarker(MarkerNodeCoordinate(nodeNumber=mbs.AddNode(NodePointGround()), coordinate=0))
        for k in (0, 1):
            held = mbs.AddMarker(MarkerNodeCoordinate(nodeNumber=nodes[0], coordinate=k))
            mbs.AddObject(CoordinateConstraint(markerNumbers=[ground, held]))
        kind = exu.OutputVariableType.Position
        return mbs.AddSensor(SensorNode(nodeNumber=nodes[-1], outputVariableType=kind, storeInternal=True))

    found = ours(model, "tip", model.neutral(), np.zeros(model.nv), 5e-5, duration=0.5)
    fine = simulated(build, 5e-4, duration=0.5, exact=False)
    assert np.abs(found - found[0]).max() > 0.3
    np.testing.assert_allclose(found, fine, atol=1e-3 * LENGTH)
