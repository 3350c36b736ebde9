"""`python -m tacit` is the command line."""

from tacit.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
