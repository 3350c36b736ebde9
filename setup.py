"""The optional compiled kernel of the noise: without a compiler the build goes on without it.

Everything else about the package is in pyproject.toml.
"""

import sys

from setuptools import Extension, setup

FLAGS = ["/O2", "/std:c11"] if sys.platform == "win32" else ["-O3", "-std=c11", "-fno-math-errno", "-fno-trapping-math"]

setup(
    ext_modules=[
        Extension(
            "tacit.privacy._gaussian",
            ["src/tacit/privacy/_gaussian.c"],
            extra_compile_args=FLAGS,
            optional=True,
        )
    ]
)
