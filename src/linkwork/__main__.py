"""`python -m linkwork` is the command `linkwork`."""

from linkwork.cli.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
