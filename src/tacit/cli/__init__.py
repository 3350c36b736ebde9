"""The command line: `tacit COMMAND --help` explains every command."""

from tacit.cli.app import main

__all__ = ["main"]
