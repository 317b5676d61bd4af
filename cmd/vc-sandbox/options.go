// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

const (
	// clusterLabel is the node label with the name of the InfiniBand cluster.
	clusterLabel = "ibcluster"
	gpuResource  = "nvidia.com/gpu"
	// sampleConf is the default scheduler configuration of a sandbox, below the repository's root.
	sampleConf = "config/samples/volcano-scheduler.conf"
)

// binaries are the files in bin/ that a sandbox needs.
var binaries = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kwok", "vc-scheduler", "vc-controller-manager", "vc-webhook-manager",
}

// options configure a sandbox.
type options struct {
	nodes controlplane.NodeShape
	// binDir is the directory of the binaries, by default bin/ of the repository. confPath is the scheduler's
	// configuration file, by default sampleConf. dir is the directory for logs and data, by default a temporary
	// directory.
	binDir, confPath, dir string
}

func defaultOptions() *options {
	return &options{nodes: controlplane.NodeShape{
		Count: 12, IBClusters: 3, IBClusterLabel: clusterLabel, NodesPerLeaf: 16, GPUs: 8, CPU: "32", Memory: "256Gi", Pods: 110,
	}}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	n := &o.nodes
	flags.IntVar(&n.Count, "nodes", n.Count, "how many nodes to simulate")
	flags.IntVar(&n.IBClusters, "ib-clusters", n.IBClusters, "how many InfiniBand clusters (label ibcluster) the nodes are spread over; 0 for no such labels")
	flags.IntVar(&n.NodesPerLeaf, "nodes-per-leaf", n.NodesPerLeaf, "how many nodes of a cluster share a leaf switch (label leaf)")
	flags.IntVar(&n.GPUs, "gpus-per-node", n.GPUs, "nvidia.com/gpu of each node")
	flags.IntVar(&n.RDMA, "rdma-per-node", n.RDMA, "rdma/hca of each node")
	flags.StringVar(&n.CPU, "cpu", n.CPU, "CPUs of each node")
	flags.StringVar(&n.Memory, "memory", n.Memory, "memory of each node")
	flags.IntVar(&n.Pods, "pods-per-node", n.Pods, "how many pods each node takes")
	flags.StringVar(&o.confPath, "scheduler-conf", "", "volcano-scheduler.conf of the scheduler (default "+sampleConf+")")
	flags.StringVar(&o.binDir, "bin-dir", "", "where the binaries are (default bin/ of the repository)")
	flags.StringVar(&o.dir, "dir", "", "an empty directory for logs, data and certificates, which are kept (default a temporary directory)")
}

// complete sets missing paths to their defaults, and checks all options. It reports all errors at once.
func (o *options) complete() error {
	root, err := controlplane.RepoRoot()
	if err != nil {
		return err
	}
	if o.binDir == "" {
		o.binDir = filepath.Join(root, "bin")
	}
	if o.confPath == "" {
		o.confPath = filepath.Join(root, sampleConf)
	}
	return errors.Join(o.checkNodes(), o.checkDir(), checkBinaries(o.binDir))
}

func (o *options) checkNodes() error {
	var errs []error
	atLeast := func(flag string, value, least int) {
		if value < least {
			errs = append(errs, fmt.Errorf("--%s is %d, must be at least %d", flag, value, least))
		}
	}
	atLeast("nodes", o.nodes.Count, 1)
	atLeast("ib-clusters", o.nodes.IBClusters, 0)
	atLeast("nodes-per-leaf", o.nodes.NodesPerLeaf, 1)
	atLeast("gpus-per-node", o.nodes.GPUs, 0)
	atLeast("rdma-per-node", o.nodes.RDMA, 0)
	atLeast("pods-per-node", o.nodes.Pods, 1)
	if len(errs) == 0 {
		_, err := o.nodes.Nodes()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkDir returns an error if the directory contains files, because a sandbox would mix these with its own files.
func (o *options) checkDir() error {
	if o.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(o.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--dir: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("--dir: %s is not empty", o.dir)
	}
	return nil
}

// checkBinaries returns an error that lists all missing binaries and how to build them.
func checkBinaries(dir string) error {
	var missing, targets []string
	for _, name := range binaries {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			missing = append(missing, name)
			targets = append(targets, "bin/"+name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no %s: run `make %s`", dir, strings.Join(missing, ", "), strings.Join(targets, " "))
}

// ibCluster is an InfiniBand cluster and its nodes, sorted by name.
type ibCluster struct {
	name  string
	nodes []*corev1.Node
}

// ibClusters returns the InfiniBand clusters of the simulated nodes, sorted by name.
func (o *options) ibClusters() ([]ibCluster, error) {
	nodes, err := o.nodes.Nodes()
	if err != nil {
		return nil, err
	}
	var clusters []ibCluster
	for _, node := range nodes {
		name := node.Labels[clusterLabel]
		i := slices.IndexFunc(clusters, func(c ibCluster) bool { return c.name == name })
		if i < 0 {
			i = len(clusters)
			clusters = append(clusters, ibCluster{name: name})
		}
		clusters[i].nodes = append(clusters[i].nodes, node)
	}
	return clusters, nil
}
