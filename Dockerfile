# SPDX-License-Identifier: Apache-2.0
# One of our binaries, named by BINARY, in an image with nothing beside it but the certificates of public authorities:
#
#   docker build --build-arg BINARY=vc-scheduler --build-arg VERSION=v0.1.0 -t vc-scheduler:v0.1.0 .
#
# `make image` builds all three. GO_VERSION follows go.mod; hack/verify.sh holds one against the other.
ARG GO_VERSION=1.26
FROM docker.io/library/golang:${GO_VERSION}-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG BINARY
ARG VERSION
# The link gives every image the same entrypoint, since an entrypoint cannot name a build argument.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    make "bin/${BINARY:?name a binary: vc-scheduler, vc-controller-manager or vc-webhook-manager}" "VERSION=${VERSION:?give a version}" \
    && mkdir -p /image/etc/ssl/certs \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && cp "bin/${BINARY}" /image/ \
    && ln -s "/${BINARY}" /image/entrypoint

FROM scratch
COPY --from=build /image /
# By number, so that Kubernetes can see that it is not root; the chart's pods run as the same.
USER 65532:65532
ENTRYPOINT ["/entrypoint"]
