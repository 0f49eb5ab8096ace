# The GPU machine: LIBERO, torch with CUDA, and EGL. Build from the repository's root:
#   docker build -t l2bench .
#   docker run --rm --gpus all -v "$PWD/out:/out" l2bench run libero_long -o long
# docs/gpu.md says more. Neither built nor run by the maintainers on a GPU machine yet.
FROM python:3.11-slim-bookworm

# libgl1 and libglib2.0-0 are for OpenCV, which robosuite imports; the rest renders.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        libegl1 libgl1 libglib2.0-0 libopengl0 libosmesa6 \
    && rm -rf /var/lib/apt/lists/*

# The driver comes from the host; without this file EGL does not find it.
RUN mkdir -p /usr/share/glvnd/egl_vendor.d \
    && printf '%s\n' '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}' \
        > /usr/share/glvnd/egl_vendor.d/10_nvidia.json

# Another CUDA build of torch: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
WORKDIR /opt/l2bench
COPY . .
RUN pip install --no-cache-dir -c tests/constraints.txt \
    ".[video]" ./plugins/l2bench-agents ./plugins/l2bench-libero

RUN useradd --create-home --uid 1000 l2bench && install -d -o l2bench /out
USER l2bench
WORKDIR /out
# HOME can be written to under any --user; graphics is what EGL needs of the driver.
ENV HOME=/tmp USER=l2bench MUJOCO_GL=egl \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility
ENTRYPOINT ["l2bench"]
CMD ["doctor"]
