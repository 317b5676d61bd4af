#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what a reviewer should not have to. Runs every check and fails if one did.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

check() { # NAME COMMAND...
  local name=$1
  shift
  if "$@" >"$tmp/log" 2>&1; then
    echo "ok    $name"
  else
    echo "FAIL  $name"
    sed 's/^/      /' "$tmp/log"
    failed=1
  fi
}

generated() {
  hack/generate.sh "$tmp" || return 1
  local bad=0
  for path in config/crd config/install pkg/client docs/configuration.md docs/metrics.md docs/pictures docs/plugins/ibcluster.svg internal/controlplane/testdata; do
    diff -ru "$path" "$tmp/$path" || bad=1
  done
  for path in $(cd "$tmp" && find pkg/apis -type f); do
    diff -u "$path" "$tmp/$path" || bad=1
  done
  ((bad == 0)) || echo "run: make generate"
  return $bad
}

formatted() {
  local files
  files=$(git ls-files -co --exclude-standard -- '*.go' | xargs -r gofmt -s -l) || return 1
  [[ -z $files ]] || { echo "run gofmt -s -w on:" && echo "$files" && return 1; }
}

confs() {
  local bad=0
  for conf in config/charts/*/files/volcano-scheduler.conf config/samples/*.conf; do
    bin/vc-scheduler --validate-conf "$conf" || bad=1
  done
  return $bad
}

# Samples begin with the chart's conf, after what is said of them.
samples() {
  local chart=config/charts/volcano-prebind/files/volcano-scheduler.conf bad=0
  for conf in config/samples/*.conf; do # a sample may add action preempt
    diff -u --label "$chart" --label "the beginning of $conf" "$chart" <(grep -v '^#' "$conf" | sed '1s/allocate, preempt,/allocate,/' | head -n "$(wc -l <"$chart")") || bad=1
  done
  return $bad
}

licensed() {
  local files
  files=$(git ls-files -co --exclude-standard -- '*.go' '*.sh' '.github/*.yml' '.github/**/*.yml' Makefile Dockerfile .ci/run | xargs -r grep -L 'SPDX-License-Identifier: Apache-2.0')
  [[ -z $files ]] || { echo "their first line should be SPDX-License-Identifier: Apache-2.0, in a comment:" && echo "$files" && return 1; }
}

# The image is built with the Go that go.mod asks for.
image_go() {
  local want got
  want=$(go list -m -f '{{.GoVersion}}' | cut -d. -f1,2) || return 1
  got=$(sed -n 's/^ARG GO_VERSION=//p' Dockerfile)
  [[ $got == "$want" ]] || { echo "GO_VERSION in Dockerfile is $got; it should be $want, as in go.mod" && return 1; }
}

# What makes volumes in the end-to-end tests is a module of its own.
provisioner() (
  cd test/e2e/provisioner && go mod tidy -diff && go vet ./...
)

chart() {
  bin/helm lint --strict config/charts/volcano-prebind
}

check "generated files are up to date" generated
check "pages name what the code has" go test ./hack/refdoc
check "Go files are formatted" formatted
check "source files name their licence" licensed
check "go.mod is tidy" go mod tidy -diff
check "go vet" go vet ./...
check "the tests' provisioner is tidy and vetted" provisioner
check "confs are valid" confs
check "samples extend the chart's conf" samples
check "the chart lints" chart
check "the image is built with go.mod's Go" image_go
exit $failed
