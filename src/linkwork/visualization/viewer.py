"""Viewer in the browser, by viser: sliders that keep loops closed, clusters, frames, forces, and logs."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from linkwork.errors import LinkworkError, MissingPackageError, ModelError
from linkwork.functions.energy import center_of_mass
from linkwork.functions.kinematics import forward_kinematics
from linkwork.mechanism.names import join_names, plain, printable
from linkwork.model import GROUND, Model
from linkwork.model.report import count
from linkwork.simulation.log import Log
from linkwork.visualization.arrows import Arrows, contact_arrows, torque_arrows
from linkwork.visualization.log import as_log
from linkwork.visualization.scene import Scene, bounds, scene
from linkwork.visualization.sliders import Sliders

GREY = (170, 176, 182)
RED = (208, 64, 64)
BLUE = (40, 110, 200)
GREEN = (60, 150, 80)
SLIDER_DECIMALS = 4  # decimals of sliders
FRAMES_PER_SECOND = 30.0  # frames per second while a log plays
OPTIONS = {  # drawable parts, and whether they are shown at first
    "bodies": True,
    "clusters": True,
    "inertia ellipsoids": False,
    "frames": False,
    "centre of mass": True,
    "joint torques": False,
    "contact forces": True,
}


def view(
    model: Model,
    log: Any = None,
    *,
    file: str | os.PathLike[str] | None = None,
    folders: Iterable[str | os.PathLike[str]] = (),
    host: str = "127.0.0.1",
    port: int = 8080,
    row: int = 0,
) -> Viewer:
    """Show a model in the browser.

    Sliders move the independent coordinates with all loops closed; the status line explains moves that fail.
    The viewer serves in the background until `close()` or the end of the process. In a notebook, the returned
    viewer displays the page. Needs viser: pip install 'linkwork[view]'.

    Parameters
    ----------
    model : Model
        Model to show.
    log : Log, Rollout, mapping or path, optional
        Motion to play. A mapping has "t" and "q", and may have "tau", or "points" and "forces" of contacts; a
        file is one of `linkwork simulate --out`.
    file : path, optional
        URDF of the model, for its visuals.
    folders : iterable of path, optional
        Folders in which meshes may be opened besides that of `file`.
    host : str, optional
        Address to serve at. The default is reachable from this machine only.
    port : int, optional
        Port to serve at.
    row : int, optional
        Row of a log with many rows.

    Returns
    -------
    Viewer
        Handle with `url`, `move`, `show`, `scrub` and `close`.
    """
    motion = None if log is None else as_log(model, log, row=row)
    return Viewer(model, motion, scene(model, file=file, folders=folders), host, port)


def _check_host(host: str) -> None:
    """Raise unless the host name is an address of this machine: the server's thread would end silently."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.bind(address)
    except (OSError, UnicodeError) as error:
        raise ModelError(
            f"view: host {printable(host)!r} is not an address of this machine, such as 127.0.0.1 or "
            f"0.0.0.0: {error}"
        ) from None


class Viewer:
    """Model shown in the browser at `url`; made by `lw.view`."""

    def __init__(
        self, model: Model, log: Log | None, seen: Scene, host: str = "127.0.0.1", port: int = 8080
    ) -> None:
        self.model = model
        self.log = log
        self.scene = seen
        self.sliders = Sliders(model)
        self._lock = threading.RLock()
        self._quiet = False  # whether callbacks of sliders are ignored
        self._shown = dict(OPTIONS)
        self._closed = threading.Event()
        self._state = 0  # number of the log's state
        _check_host(host)
        with contextlib.redirect_stdout(io.StringIO()):  # viser prints its address
            self._server = _viser().ViserServer(host=host, port=port, label=plain(model.name), verbose=False)
        self.url = (
            f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{self._server.get_port()}"
        )
        self._compile()
        self._build_scene()
        self._build_panel()
        if log is not None:
            self.sliders.place_at(log.q[0])
        self._draw()
        self.player = threading.Thread(target=self._play, daemon=True)
        self.player.start()

    @property
    def q(self) -> np.ndarray:
        """Current configuration, (nq,)."""
        return self.sliders.q.copy()

    def move(self, name: str, value: float) -> str:
        """Move an independent coordinate, named as in `model.v_names`; return "", or why the move failed."""
        with self._lock:
            problem = self.sliders.move(name, value)
            self._set_status(problem)
            self._draw()
            return problem

    def show(self, q: Any) -> None:
        """Show a configuration, (nq,), without closing loops."""
        with self._lock:
            self.sliders.place_at(q)
            self._set_status("")
            self._draw()

    def scrub(self, seconds: float) -> None:
        """Show the log at a time [s]."""
        if self.log is None:
            raise LinkworkError("no log to show: pass one, as in view(model, log)")
        with self._lock:
            self._state = self.log.at(seconds)
            self.sliders.place_at(self.log.q[self._state])
            self._draw()

    def close(self) -> None:
        """Stop serving."""
        if not self._closed.is_set():
            self._closed.set()
            self.player.join(timeout=5.0)
            with contextlib.redirect_stdout(io.StringIO()):
                self._server.stop()

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        try:
            while not self._closed.wait(0.5):
                pass
        finally:
            self.close()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<linkwork viewer of {plain(self.model.name)!r} at {self.url}>"

    def _repr_html_(self) -> str:
        """Return the page, in a notebook."""
        return f'<iframe src="{self.url}" width="100%" height="560" style="border:0"></iframe>'

    # scene and panel

    def _compile(self) -> None:
        """Call all functions that moving the robot needs once, so that they are compiled."""
        if self.model.bodies:
            forward_kinematics(self.model, self.sliders.q)
            if self.model.mass > 0:
                center_of_mass(self.model, self.sliders.q)

    def _build_scene(self) -> None:
        add = self._server.scene
        size = self.scene.size
        add.set_up_direction("+z")
        low, middle = bounds(self.scene, self.sliders.q)
        self._server.initial_camera.look_at = tuple(middle)
        self._server.initial_camera.position = tuple(middle + size * np.array([-0.7, -1.2, 0.6]))
        add.add_grid("/ground", width=4 * size, height=4 * size, cell_size=size / 5, position=(0.0, 0.0, low))
        self._bodies = {}
        self._ellipsoids = {}
        self._frames = {}
        for body in self.model.bodies:
            k = body.index
            path = f"/bodies/{body.index}"
            mesh = self.scene.meshes[k]
            solid = self.scene.inertias[k]
            self._bodies[k] = add.add_mesh_simple(f"{path}/mesh", mesh.vertices, mesh.faces,
                color=self.scene.colours[k],
                                                  flat_shading=True, side="double")  # fmt: skip
            self._ellipsoids[k] = add.add_mesh_simple(
                f"{path}/inertia", solid.vertices, solid.faces, color=GREEN, opacity=0.4
            )
            self._frames[k] = add.add_frame(
                f"{path}/frame", axes_length=0.08 * size, axes_radius=0.004 * size
            )
        if GROUND in self.scene.meshes:
            mesh = self.scene.meshes[GROUND]
            add.add_mesh_simple(
                "/world", mesh.vertices, mesh.faces, color=GREY, flat_shading=True, side="double"
            )
        self._center = add.add_icosphere("/centre of mass", radius=0.025 * size, color=RED)
        self._arrows: dict[str, Any] = {}

    def _build_panel(self) -> None:
        gui = self._server.gui
        model = self.sliders.model
        sizes = [
            count(len(model.bodies), "body", "bodies"),
            count(model.nv, "degree of freedom", "degrees of freedom"),
        ]
        if model.loops:
            sizes.append(count(len(model.loops), "loop or coupling", "loops and couplings"))
        gui.add_markdown(f"**{_escaped(model.name)}**: {', '.join(sizes)}")
        self._status = gui.add_markdown("")
        if self.log is not None:
            self._build_player(gui)
        self._controls: dict[str, Any] = {}
        with gui.add_folder("Independent coordinates", expand_by_default=True):
            for slider in self.sliders.sliders:
                lower = round(slider.lower, SLIDER_DECIMALS)
                upper = round(slider.upper, SLIDER_DECIMALS)
                step = max(10.0**-SLIDER_DECIMALS, round((upper - lower) / 1000.0, SLIDER_DECIMALS))
                value = float(np.clip(round(self.sliders.value(slider.name), SLIDER_DECIMALS), lower, upper))
                control = gui.add_slider(printable(slider.name, 40), lower, upper, step, value)
                control.on_update(self._moved(slider.name, control))
                self._controls[slider.name] = control
            gui.add_button("Back to the start").on_click(lambda _: self.show(Sliders(self.model).q))
        with gui.add_folder("Show", expand_by_default=False):
            for word, is_shown in OPTIONS.items():
                box = gui.add_checkbox(word, is_shown)
                box.on_update(self._toggled(word, box))
        if self.scene.notes or self.sliders.note:
            with gui.add_folder("Notes", expand_by_default=False):
                notes = [note for note in (self.sliders.note, *self.scene.notes[:20]) if note]
                gui.add_markdown("\n".join(f"- {_escaped(note)}" for note in notes))

    def _build_player(self, gui: Any) -> None:
        assert self.log is not None
        with gui.add_folder("Log", expand_by_default=True):
            self._playing = gui.add_checkbox("play", False)
            last = max(float(self.log.t[-1]), 1e-6)
            self._time = gui.add_slider(
                "time [s]", float(self.log.t[0]), last, max((last - self.log.t[0]) / 2000.0, 1e-9), 0.0
            )
            self._pace = gui.add_slider("pace", 0.1, 4.0, 0.1, 1.0)
            self._time.on_update(lambda _: None if self._quiet else self.scrub(float(self._time.value)))

    def _moved(self, name: str, control: Any) -> Any:
        def moved(_: Any) -> None:
            if not self._quiet:
                with self._lock:
                    slider = next(s for s in self.sliders.sliders if s.name == name)
                    self.move(name, float(np.clip(control.value, slider.lower, slider.upper)))

        return moved

    def _toggled(self, word: str, box: Any) -> Any:
        def toggled(_: Any) -> None:
            with self._lock:
                self._shown[word] = bool(box.value)
                self._draw()

        return toggled

    def _set_status(self, problem: str) -> None:
        beyond = self.sliders.beyond_limits() if not problem else []
        message = problem or (
            f"beyond their limits: {join_names([printable(name) for name in beyond], 4)}" if beyond else ""
        )
        self._status.content = f"⚠️ {_escaped(message)}" if message else ""

    @contextlib.contextmanager
    def _quietly(self) -> Iterator[None]:
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def _draw(self) -> None:
        """Update the scene and the panel to the current configuration."""
        q = self.sliders.q
        poses = (
            np.asarray(forward_kinematics(self.model, q), dtype=float)
            if self.model.bodies
            else np.zeros((0, 4, 4))
        )
        with self._server.atomic(), self._quietly():
            for k, pose in enumerate(poses):
                for handle in (self._bodies[k], self._ellipsoids[k], self._frames[k]):
                    handle.position = pose[:3, 3]
                    handle.wxyz = _wxyz(pose[:3, :3])
                self._bodies[k].visible = self._shown["bodies"]
                self._bodies[k].color = self.scene.colours[k] if self._shown["clusters"] else GREY
                self._ellipsoids[k].visible, self._frames[k].visible = (
                    self._shown["inertia ellipsoids"],
                    self._shown["frames"],
                )
            self._center.visible = self._shown["centre of mass"] and self.model.mass > 0
            if self._center.visible:
                self._center.position = np.asarray(center_of_mass(self.model, q), dtype=float)
            torques: Arrows = []
            forces: Arrows = []
            if self._shown["joint torques"]:
                torques = torque_arrows(self.scene, self.log, self._state, q, poses)
            if self._shown["contact forces"]:
                forces = contact_arrows(self.scene, self.log, self._state)
            self._put_arrows("joint torques", torques, BLUE)
            self._put_arrows("contact forces", forces, RED)
            for name, control in self._controls.items():
                control.value = float(
                    np.clip(round(self.sliders.value(name), SLIDER_DECIMALS), control.min, control.max)
                )
            if self.log is not None:
                self._time.value = float(self.log.t[self._state])

    def _put_arrows(self, name: str, arrows: Arrows, colour: tuple[int, int, int]) -> None:
        before = self._arrows.pop(name, None)
        if before is not None:
            before.remove()
        if arrows:
            size = self.scene.size
            self._arrows[name] = self._server.scene.add_arrows(
                f"/{name}", np.array(arrows, dtype=float), colour,
                shaft_radius=0.006 * size, head_radius=0.016 * size, head_length=0.04 * size,
            )  # fmt: skip

    def _play(self) -> None:
        """Play the log while the box is ticked, and start again at its end."""
        before = time.monotonic()
        while not self._closed.wait(1.0 / FRAMES_PER_SECOND):
            now = time.monotonic()
            if self.log is not None and self._playing.value:
                t = float(self._time.value) + float(self._pace.value) * (now - before)
                self._advance(t if t <= self.log.t[-1] else float(self.log.t[0]))
            before = now

    def _advance(self, seconds: float) -> None:
        assert self.log is not None
        with self._lock:
            self.scrub(seconds)
            with self._quietly():
                self._time.value = seconds  # also between two states


def _viser() -> Any:
    try:
        import viser
    except ImportError:
        raise MissingPackageError(
            "the viewer needs the package viser, which is not installed: pip install 'linkwork[view]'"
        ) from None
    return viser


def _wxyz(R: np.ndarray) -> np.ndarray:
    """Return the unit quaternion w x y z of a rotation: an eigenvector of Bar-Itzhack's matrix,
    for any angle.
    """
    K = np.empty((4, 4))
    K[1:, 1:] = R + R.T - np.trace(R) * np.eye(3)
    K[0, 1:] = K[1:, 0] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    K[0, 0] = np.trace(R)
    result: np.ndarray = np.linalg.eigh(K)[1][:, -1]
    return result


def _escaped(text: str) -> str:
    """Return text with Markdown escaped."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>()#+-.!|~$&" else c for c in plain(text))
