# The GPU machine: LIBERO, torch and EGL. Build from the repository's root:
#   docker build -t l2bench .
#   docker run --gpus all -v "$PWD/out:/out" l2bench run libero_long -o /out/long
# Not yet built or run by the maintainers on a GPU machine.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends libegl1 libgl1 libosmesa6 libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/l2bench
COPY . .
RUN pip install --no-cache-dir -c plugins/constraints.txt \
    . ./plugins/l2bench-agents ./plugins/l2bench-libero

ENV MUJOCO_GL=egl NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility
WORKDIR /out
ENTRYPOINT ["l2bench"]
CMD ["doctor"]
