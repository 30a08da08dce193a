# A worker on GPUs: `docker build -f deploy/docker/worker.Dockerfile --build-arg CUDA=13 -t kernel-farm-worker:cuda13 .`
# CUDA 12 runs on drivers from 525 on and boards from Maxwell on; CUDA 13 wants 580 and Turing. Compiler and headers are wheels;
# the driver comes from the machine, through its container toolkit.
FROM python:3.12.11-slim-bookworm AS built
ARG CUDA=12
WORKDIR /build
COPY requirements.txt requirements-cuda12.txt requirements-cuda13.txt ./
RUN python -m venv /opt/farm \
    && /opt/farm/bin/python -m pip install --no-cache-dir --no-deps --require-hashes \
        -r requirements.txt -r "requirements-cuda${CUDA}.txt"
COPY pyproject.toml README.md ./
COPY kernels kernels
COPY workers workers
COPY db db
COPY farm farm
RUN /opt/farm/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12.11-slim-bookworm
RUN useradd --uid 10001 --home-dir /farm --shell /usr/sbin/nologin farm \
    && install -d -m 1777 /farm
COPY --from=built /opt/farm /opt/farm
COPY deploy/docker/healthy.py /opt/healthy.py
# /farm is open to any uid: what reads secrets of mode 0600 has to run as their owner.
ENV PATH=/opt/farm/bin:$PATH HOME=/farm USER=farm FARM_STATE=/farm/state RAY_USAGE_STATS_ENABLED=0 PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /farm
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 CMD ["python", "/opt/healthy.py", "boards"]
ENTRYPOINT ["python", "-m", "workers"]
CMD ["selftest"]
