#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes every generated file below the folder given, in the places they have in the repository.
set -euo pipefail
out=$(realpath "$1")
cd "$(dirname "$0")/.."
mkdir -p "$out/config/crd" "$out/config/install" "$out/docs" "$out/internal/controlplane/testdata"

# The groups of our own types, below pkg/apis, and their clients.
ours=(coscheduling/v1alpha1 scheduling/v1alpha1)
module=$(go list -m)
for group in "${ours[@]}"; do
  bin/controller-gen object:headerFile=hack/boilerplate.go.txt "paths=./pkg/apis/$group" "output:object:dir=$out/pkg/apis/$group"
done
rm -rf "$out/pkg/client"
client() { # GENERATOR KIND ARGUMENTS...
  bin/"$1" --go-header-file hack/boilerplate.go.txt --output-dir "$out/pkg/client/$2" --output-pkg "$module/pkg/client/$2" "${@:3}"
}
packages=("${ours[@]/#/$module/pkg/apis/}")
client client-gen clientset --clientset-name versioned --input-base "$module/pkg/apis" "${ours[@]/#/--input=}"
client lister-gen listers "${packages[@]}"
client informer-gen informers --versioned-clientset-package "$module/pkg/client/clientset/versioned" --listers-package "$module/pkg/client/listers" "${packages[@]}"

# The groups that the scheduler, the controllers and the webhooks use. Descriptions are left out, since with them
# the CRDs of jobs exceed what an object may hold.
apis=$(go list -m -f '{{.Dir}}' volcano.sh/apis)/pkg/apis
paths=()
for group in batch/v1alpha1 bus/v1alpha1 config/v1alpha1 flow/v1alpha1 nodeinfo/v1alpha1 scheduling/v1beta1 shard/v1alpha1 topology/v1alpha1; do
  paths+=("paths=$apis/$group")
done
rm -f "$out"/config/crd/*.yaml
bin/controller-gen crd:maxDescLen=0,generateEmbeddedObjectMeta=true "${paths[@]}" "output:crd:artifacts:config=$out/config/crd"
go run ./hack/crdrules "$out/config/crd"
for group in "${ours[@]}"; do
  bin/controller-gen crd:generateEmbeddedObjectMeta=true "paths=./pkg/apis/$group" "output:crd:artifacts:config=$out/config/crd"
done

hack/render-chart.sh >"$out/config/install/volcano-prebind.yaml.new"
mv "$out/config/install/volcano-prebind.yaml.new" "$out/config/install/volcano-prebind.yaml"
hack/render-chart.sh pod-webhooks >"$out/internal/controlplane/testdata/pod-webhooks.yaml.new"
mv "$out/internal/controlplane/testdata/pod-webhooks.yaml.new" "$out/internal/controlplane/testdata/pod-webhooks.yaml"

go run ./hack/confdoc >"$out/docs/configuration.md.new"
mv "$out/docs/configuration.md.new" "$out/docs/configuration.md"
go run ./hack/refdoc "$out"
