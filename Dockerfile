# The curator as a container. Build: docker build -t dp-curator .   Run: see docker-compose.yml and README.md.
# No secret belongs in here: the database's address comes from the environment, its password from a file. It runs as a
# user of its own, on a root that may be read-only: it writes to its three volumes and to /tmp. It listens beyond its own
# loopback once CURATOR_PROXY declares the TLS proxy in front of it.

FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/curator
# Every dependency, the build backend included, is pinned by hash; wheels only, so that nothing of theirs runs here.
COPY locks/server.lock locks/server.lock
RUN /opt/curator/bin/pip install --require-hashes --only-binary :all: --requirement locks/server.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY docs/glossary.md docs/glossary.md
COPY migrations migrations
COPY curator_service curator_service
# The backend reads and writes files alone; what it needed leaves again.
RUN /opt/curator/bin/python -m hatchling build --target wheel --directory /tmp/wheel \
 && /opt/curator/bin/pip install --no-index --no-deps /tmp/wheel/dp_curator-*.whl \
 && /opt/curator/bin/pip uninstall --yes hatchling pathspec pluggy trove-classifiers \
 && /opt/curator/bin/pip check

FROM python:3.11-slim-bookworm
RUN groupadd --system --gid 10001 curator \
 && useradd --system --uid 10001 --gid curator --home-dir /data --no-create-home --shell /usr/sbin/nologin curator \
 && install --directory --mode 0700 --owner 10001 --group 10001 /backups \
 && install --directory --mode 0700 --owner curator --group curator /data /keys /anchor
COPY --from=build /opt/curator /opt/curator
ENV PATH=/opt/curator/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OPENBLAS_NUM_THREADS=1 \
    CURATOR_DATA_DIR=/data \
    CURATOR_KEYS_DIR=/keys \
    CURATOR_ANCHOR_DIR=/anchor
USER 10001:10001
WORKDIR /data
# Three, because they must not be lost, copied or wound back together: see docs/ledger.md.
VOLUME ["/data", "/keys", "/anchor"]
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["curator"]
CMD ["serve", "--host", "0.0.0.0"]
