"""YAML files of parallel robots, which list the frame pairs that close the loops of a tree URDF.

closed_loop: [[frame_a, frame_b], ...]    names of links, frames or joints
type: [6d, 3d, ...]                       6D welds the frames, 3D connects their origins
name_mot: [hip, knee, ...]                actuated joints
joint_name: [ankle, ...]                  joints of the URDF that have another type,
joint_type: [SPHERICAL, ...]              namely SPHERICAL, FIXED, or UJOINT_XY (hinges about x, then y)

Values are names and lists of names; other keys, mappings and aliases are errors.
"""

from __future__ import annotations

import re
from typing import Any

from linkwork.errors import LimitError, MissingPackageError, ModelError
from linkwork.formats.xml import PATH, content
from linkwork.joints import Fixed, Joint, Spherical
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable
from linkwork.model.loop_joints import LoopJoint, LoopOptions

KEYS = ("closed_loop", "type", "name_mot", "joint_name", "joint_type")
LOOP_JOINTS: dict[str, type[Joint]] = {"3d": Spherical, "6d": Fixed}
TYPES = re.compile("SPHERICAL|FIXED|UJOINT_[XYZ][XYZ]")
MAX_SIZE = 2**17  # bytes
MAX_DEPTH = 5  # nested lists


def loop_file(path: str, limits: Limits) -> LoopOptions:
    """Return the loops, motors and joint types of a file."""
    data = content(path, limits)
    if len(data) > MAX_SIZE:
        raise LimitError(f"{printable(path, PATH)}: larger than the limit of {MAX_SIZE} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{printable(path, PATH)}: not UTF-8 text ({error.reason} at {error.start})"
        ) from None
    values_by_key = _read(path, text)
    loops = []
    pairs = values_by_key.get("closed_loop", [])
    types = values_by_key.get("type", [])
    if len(pairs) != len(types):
        raise ModelError(
            f"{printable(path, PATH)}: type: expected {len(pairs)} entries, one per pair of closed_loop; "
            f"got {len(types)}"
        )
    for pair, type_ in zip(pairs, types):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise ModelError(
                f"{printable(path, PATH)}: closed_loop: expected pairs of names, got {printable(pair)}"
            )
        if not isinstance(type_, str) or type_.lower() not in LOOP_JOINTS:
            raise ModelError(f"{printable(path, PATH)}: type: expected 3D or 6D, got {printable(type_)}")
        name = f"{pair[0]} on {pair[1]}"
        loops.append(LoopJoint(name, LOOP_JOINTS[type_.lower()](), predecessor=pair[0], successor=pair[1]))
    return LoopOptions(
        tuple(loops), motors=_words(path, values_by_key, "name_mot"), retyped=_retyped(path, values_by_key)
    )


def _words(path: str, values_by_key: dict[str, Any], key: str) -> tuple[str, ...]:
    values = values_by_key.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ModelError(f"{printable(path, PATH)}: {key}: expected a list of names, got {printable(values)}")
    return tuple(values)


def _retyped(path: str, values_by_key: dict[str, Any]) -> dict[str, str]:
    joints = _words(path, values_by_key, "joint_name")
    types = _words(path, values_by_key, "joint_type")
    if len(joints) != len(types):
        raise ModelError(
            f"{printable(path, PATH)}: joint_type: expected {len(joints)} entries, one per joint_name; "
            f"got {len(types)}"
        )
    for type_ in types:
        if not TYPES.fullmatch(type_):
            raise ModelError(
                f"{printable(path, PATH)}: joint_type: expected SPHERICAL, FIXED or UJOINT_XY, got "
                f"{printable(type_)}"
            )
    return dict(zip(joints, types))


def _read(path: str, text: str) -> dict[str, Any]:
    """Return the values of a mapping, names or nested lists of them, by key."""
    try:
        import yaml
    except ImportError:
        raise MissingPackageError(
            "YAML files of loops need the package PyYAML, which is not installed: pip install "
            "'linkwork[yaml]'"
        ) from None

    class Loader(yaml.BaseLoader):  # type: ignore[misc]
        """Loader of nodes without anchors, of bounded depth."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                raise _error(path, line, "aliases are not supported")
            if self.depth > MAX_DEPTH:
                raise _error(path, line, f"lists are nested deeper than {MAX_DEPTH}")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    try:
        root = yaml.compose(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise _error(path, line, f"invalid YAML: {printable(error.problem or error.context)}") from None
    except yaml.YAMLError as error:
        raise ModelError(f"{printable(path, PATH)}: invalid YAML: {printable(error, 200)}") from None
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        line = root.start_mark.line + 1
        raise _error(path, line, f"expected a key such as closed_loop:, got {printable(root.value, 40)}")
    values_by_key: dict[str, Any] = {}
    for key, value in root.value:
        line = key.start_mark.line + 1
        if key.value in values_by_key:
            raise _error(path, line, f"duplicate key {printable(key.value)!r}")
        if key.value not in KEYS:
            expected = ", ".join(KEYS)
            raise _error(path, line, f"unknown key {printable(key.value)!r}; expected one of {expected}")
        values_by_key[key.value] = _names(path, value)
    return values_by_key


def _names(path: str, node: Any) -> Any:
    """Return a node as a name or a list."""
    if node.id == "sequence":
        return [_names(path, each) for each in node.value]
    if node.id == "scalar":
        return node.value
    raise _error(path, node.start_mark.line + 1, "expected a name or a list of names, got a mapping")


def _error(path: str, line: int, message: str) -> ModelError:
    return ModelError(f"{printable(path, PATH)}:{line}: {message}")
