"""The optional compiled kernels of decisions, noise and the HIV simulator: without a compiler the build goes on.

TACIT_PURE=1 leaves them out, for the wheel of every platform. Everything else about the package is in pyproject.toml.
"""

import os
import sys

from setuptools import Extension, setup

FLAGS = ["/O2", "/std:c11"] if sys.platform == "win32" else ["-O3", "-std=c11", "-fno-math-errno", "-fno-trapping-math"]

setup(
    ext_modules=[
        Extension(
            name,
            [f"src/{name.replace('.', '/')}.c"],
            include_dirs=["src/tacit"],
            depends=["src/tacit/_clones.h"],
            extra_compile_args=FLAGS,
            optional=True,
        )
        for name in ("tacit._rowwise", "tacit.privacy.noise._gaussian", "tacit_worlds._hiv")
        if os.environ.get("TACIT_PURE") != "1"
    ]
)
