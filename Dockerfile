# The program alone: `make image`. Docker, podman and buildah build it; no part of it needs BuildKit.
#
# Any image with Rust, a C compiler and Debian's apt-get will do for the build: --build-arg BUILD_IMAGE=… The digest names one
# image, whatever the tag comes to mean; the tag is for people. The image that is built has no base image: see `FROM scratch`.
ARG BUILD_IMAGE=rust:1.97.1-slim-bookworm@sha256:99e09cb2284e2ddbb73a995deee3e91783fd04d177602ccf6eab326d778ee777

FROM ${BUILD_IMAGE} AS build
# musl-tools: its C compiler, for the cryptography. ca-certificates: the roots by which registries are known.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ca-certificates musl-tools \
    && rm -rf /var/lib/apt/lists/*
# Each machine builds for itself: x86_64 is tested, and the program for aarch64 was run under QEMU.
RUN uname -m | sed 's/$/-unknown-linux-musl/' > /target && rustup target add "$(cat /target)"

WORKDIR /mullion
# The dependencies first, with a program that does nothing: they stay in this layer until one of them changes.
COPY .cargo .cargo
COPY Cargo.toml Cargo.lock ./
COPY tests/cluster/Cargo.toml tests/cluster/
COPY crates/engine/Cargo.toml crates/engine/
COPY crates/manifest/Cargo.toml crates/manifest/
COPY crates/policy/Cargo.toml crates/policy/
COPY crates/snapshot/Cargo.toml crates/snapshot/
RUN for package in . tests/cluster crates/*; do mkdir -p "$package/src" && touch "$package/src/lib.rs"; done \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --locked --release --bin mullion --target "$(cat /target)" \
    && rm -r src tests/cluster/src crates/*/src
COPY policies policies
COPY crates crates
COPY src src
# Cargo goes by times, and what is copied is older than what the step before built.
RUN mkdir -p tests/cluster/src && touch tests/cluster/src/lib.rs crates/*/src/lib.rs src/lib.rs src/main.rs \
    && cargo build --locked --release --bin mullion --target "$(cat /target)" \
    && mv "target/$(cat /target)/release/mullion" /mullion/mullion \
    && /mullion/mullion --version

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="Mullion" \
      org.opencontainers.image.description="Places and checks pods by operating system in mixed Windows/Linux Kubernetes clusters" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY LICENSE /LICENSE
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /mullion/mullion /usr/bin/mullion
# mimalloc asks for huge pages: with 20,000 nodes 44 MiB stay resident with them and 33 without.
ENV MIMALLOC_ALLOW_THP=0
# A number, so that runAsNonRoot can be checked; there is no user of that name, and no shell.
USER 65532:65532
EXPOSE 9443 8080
ENTRYPOINT ["/usr/bin/mullion"]
