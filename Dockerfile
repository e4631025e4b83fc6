# syntax=docker/dockerfile:1
# Two images from one file:
#   docker build --target server -t torchtpu-conformance-server .
#   docker build --target runner -t torchtpu-conformance-runner .
FROM rust:1.95-slim-trixie AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Queries are checked against the committed .sqlx, so that no database is needed here.
ENV SQLX_OFFLINE=true
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --bin server --bin runner \
    && install -D target/release/server target/release/runner --target-directory /out

# The server needs a C library and the roots of certificates, and nothing that writes.
FROM debian:trixie-slim AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/conformance --create-home conformance

FROM base AS server
COPY --from=build /out/server /usr/local/bin/server
COPY gates /etc/conformance/gates
COPY model-lists/*.toml /etc/conformance/model-lists/
USER 10001:10001
ENV CONFORMANCE_LISTEN=0.0.0.0:8080 \
    CONFORMANCE_GATES=/etc/conformance/gates \
    CONFORMANCE_MODEL_LISTS=/etc/conformance/model-lists \
    CONFORMANCE_LOG_FORMAT=json
EXPOSE 8080
# The image has no curl: bash opens the connection itself.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["server"]
CMD ["serve"]

# The runner makes its Python environment at the first start and keeps it in its volume. A TPU host
# brings its own with --python.
FROM base AS runner
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/runner /usr/local/bin/runner
COPY model-lists /usr/share/conformance/model-lists
USER 10001:10001
WORKDIR /var/lib/conformance
VOLUME /var/lib/conformance
ENTRYPOINT ["runner"]
