"""`linkwork view`: a robot in the browser."""

from __future__ import annotations

import argparse
import os
import webbrowser

from linkwork.cli.robot import load_robot
from linkwork.cli.terminal import working
from linkwork.mechanism.names import plain, printable
from linkwork.visualization.viewer import view


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or for the given number of seconds."""
    model = load_robot(args)
    file = args.robot if os.path.exists(args.robot) else None
    with working(f"compiling the kinematics of {printable(model.name)}"):
        viewer = view(
            model, args.log, file=file, folders=args.folder, host=args.host, port=args.port, row=args.row
        )
    for note in (viewer.sliders.note, *viewer.scene.notes):
        if note:
            print(f"  {plain(note)}")
    print(f"{plain(model.name)}: {viewer.url} (Ctrl-C to stop)", flush=True)
    if args.open:
        webbrowser.open(viewer.url)
    if args.seconds is None:
        viewer.wait()
    else:
        import time

        time.sleep(args.seconds)
        viewer.close()
    return 0
