# Two images. `core` verifies certificates and keeps ledgers; `full` has every method, on CPUs.
#
#     docker build --target core -t tacit:core .
#     docker build --build-arg TORCH_INDEX=<address of PyTorch's CPU builds> -t tacit .
#     docker run --rm --network none -v "$PWD":/data tacit:core certificate verify certificate.json
#
# Nothing is fetched at run time, and the user in the image has no rights. `python tools/container.py` runs these steps
# where there is no container engine.
FROM python:3.11-bookworm AS build
COPY pyproject.toml setup.py README.md LICENSE /source/
COPY src /source/src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim-bookworm AS core
COPY --from=build /wheels /wheels
COPY constraints /constraints
RUN pip install --no-cache-dir -c /constraints/core.txt /wheels/*.whl
ENV HOME=/tmp
WORKDIR /data
USER 65534:65534
ENTRYPOINT ["tacit"]

FROM core AS full
ARG TORCH_INDEX=
USER 0:0
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url $TORCH_INDEX} $(grep '^torch==' /constraints/all.txt)
RUN pip install --no-cache-dir -c /constraints/all.txt "$(ls /wheels/*.whl)[all]"
ENV OMP_NUM_THREADS=1
USER 65534:65534
