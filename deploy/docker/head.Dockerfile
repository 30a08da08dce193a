# The head, the dashboard and a worker on the processor: `docker build -f deploy/docker/head.Dockerfile -t kernel-farm-head .`
FROM python:3.12.11-slim-bookworm AS built
WORKDIR /build
COPY requirements.txt ./
RUN python -m venv /opt/farm \
    && /opt/farm/bin/python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements.txt
COPY pyproject.toml README.md ./
COPY kernels kernels
COPY workers workers
COPY db db
COPY farm farm
RUN /opt/farm/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12.11-slim-bookworm
# g++ compiles kernels for the host backend. Debian keeps one version of it a release, so that a pin would only break.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --home-dir /farm --shell /usr/sbin/nologin farm \
    && install -d -m 1777 /farm
COPY --from=built /opt/farm /opt/farm
COPY deploy/docker/healthy.py /opt/healthy.py
# /farm is open to any uid: what reads secrets of mode 0600 has to run as their owner.
ENV PATH=/opt/farm/bin:$PATH HOME=/farm USER=farm FARM_STATE=/farm/state RAY_USAGE_STATS_ENABLED=0 PYTHONUNBUFFERED=1
WORKDIR /farm
USER 10001:10001
EXPOSE 8443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 CMD ["python", "/opt/healthy.py", "port", "6379"]
ENTRYPOINT ["farm"]
CMD ["up", "--foreground"]
