#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# image.sh REGISTRY TAG VERSION BINARY... builds an image REGISTRY/BINARY:TAG of each binary, with $IMAGE_BUILDER or
# the first of docker, podman and buildah that works here.
set -euo pipefail
cd "$(dirname "$0")/.."
registry=$1 tag=$2 version=$3
shift 3

builder=${IMAGE_BUILDER:-}
if [[ -z $builder ]]; then
  for candidate in docker podman buildah; do
    # A client without its engine is of no use.
    if command -v "$candidate" >/dev/null && "$candidate" info >/dev/null 2>&1; then
      builder=$candidate
      break
    fi
  done
fi
case $builder in
  docker | podman | buildah) ;;
  '')
    echo "no image builder works here: install docker, podman or buildah, or start docker's engine" >&2
    exit 1
    ;;
  *)
    echo "IMAGE_BUILDER is $builder; it should be docker, podman or buildah" >&2
    exit 1
    ;;
esac

for binary in "$@"; do
  echo "building $registry/$binary:$tag with $builder"
  # Cache mounts are BuildKit's.
  DOCKER_BUILDKIT=1 "$builder" build --build-arg "BINARY=$binary" --build-arg "VERSION=$version" \
    --tag "$registry/$binary:$tag" --file Dockerfile .
done
printf '\nThey are on this machine only. Where your cluster pulls from:\n'
printf "  $builder push $registry/%s:$tag\n" "$@"
