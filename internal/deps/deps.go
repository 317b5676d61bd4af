//go:build deps

package main

import (
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/google/cel-go/cel"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/spf13/pflag"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apiserver/pkg/cel/environment"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/component-base/cli"
	_ "k8s.io/klog/v2"
	_ "k8s.io/utils/clock"
	_ "k8s.io/kubernetes/pkg/scheduler/framework"
	_ "sigs.k8s.io/yaml"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "volcano.sh/volcano/cmd/scheduler/app"
	_ "volcano.sh/volcano/cmd/controller-manager/app"
	_ "volcano.sh/volcano/cmd/webhook-manager/app"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	_ "volcano.sh/volcano/pkg/scheduler/uthelper"
	_ "volcano.sh/apis/pkg/client/clientset/versioned"
	_ "github.com/google/uuid"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/automaxprocs"
)

func main() {}
