// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"io"
	"time"
)

// Component names a process of the control plane.
type Component string

// The components.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	KWOK              Component = "kwok"
)

// Options shape a control plane. The zero value starts every component from the repository's bin/.
type Options struct {
	// BinDir holds the binaries; bin/ beside the go.mod above the working directory when empty.
	BinDir string
	// Dir takes certificates, data and logs. When empty a temporary directory is made, and removed by Stop.
	Dir string
	// Progress is told in a line each what is being waited for; nil for silence.
	Progress io.Writer
	// NoControllerManager leaves kube-controller-manager out: no service accounts in new namespaces, no garbage
	// collection, no binding of volumes.
	NoControllerManager bool
	// NoKWOK leaves kwok out: nodes are never Ready and bound pods never run.
	NoKWOK bool
	// APIServerArgs and ControllerManagerArgs are appended to the component's flags.
	APIServerArgs         []string
	ControllerManagerArgs []string
	// Stages are further stages of kwok, in YAML, besides those of stages.yaml.
	Stages string
	// ReadyTimeout bounds the wait for each component; a minute when zero.
	ReadyTimeout time.Duration
}

// NodeShape describes simulated nodes that are alike.
type NodeShape struct {
	// Count is how many nodes to make.
	Count int
	// Prefix begins each name; names are Prefix and a zero-padded index of four digits or more, from First.
	// "node-" when empty.
	Prefix string
	First  int
	// CPU and Memory are quantities, "32" and "256Gi" when empty. Pods is the limit of pods, 110 when zero.
	CPU, Memory string
	Pods        int
	// GPUs is how many nvidia.com/gpu each node has, RDMA how many of RDMAResource ("rdma/hca" when empty).
	GPUs         int
	RDMA         int
	RDMAResource string
	// IBClusters spreads the nodes in equal runs over that many InfiniBand clusters, named ib-0, ib-1, ... in the
	// label IBClusterLabel ("ibcluster" when empty); zero leaves the labels out. Within a cluster, every
	// NodesPerLeaf nodes (16 when zero) share a leaf switch (label "leaf") and every LeavesPerSpine leaves (4 when
	// zero) a spine (label "spine"); the names of both begin with their cluster's.
	IBClusters     int
	IBClusterLabel string
	NodesPerLeaf   int
	LeavesPerSpine int
	// Labels and Annotations are added to each node.
	Labels      map[string]string
	Annotations map[string]string
}

// SchedulerKind says whose flags a scheduler binary takes.
type SchedulerKind string

// The kinds of scheduler. The zero value is Ours.
const (
	// Ours is bin/vc-scheduler.
	Ours SchedulerKind = "vc-scheduler"
	// Upstream is Volcano's own, bin/upstream-vc-scheduler.
	Upstream SchedulerKind = "upstream-vc-scheduler"
	// KubeScheduler is bin/kube-scheduler; Conf is then a KubeSchedulerConfiguration, whose clientConnection and
	// leaderElection are filled in, and may be empty.
	KubeScheduler SchedulerKind = "kube-scheduler"
)

// ConfLayout says how the conf lies on disk.
type ConfLayout int

const (
	// ConfFile is a plain file, replaced by renaming a new one over it.
	ConfFile ConfLayout = iota
	// ConfMount is laid out as kubelet mounts a ConfigMap: the file is a link into ..data, which is a link to a
	// dated directory and is swapped by a rename.
	ConfMount
)

// SchedulerOptions say how to run a scheduler process.
type SchedulerOptions struct {
	// Name names the log and the files of this process; the kind when empty. A name used before gets a number.
	Name string
	Kind SchedulerKind
	// Binary overrides the path that Kind implies.
	Binary string
	// Conf is the text of volcano-scheduler.conf; the chart's when empty, or what upstream's knows of that.
	Conf   string
	Layout ConfLayout
	// Server overrides the API server's URL, to go through a fault proxy.
	Server string
	// Admin runs the process as cluster admin instead of as the chart's service account.
	Admin bool
	// LeaderElect turns leader election on, in the chart's namespace.
	LeaderElect bool
	// Args are appended to the flags; Env ("K=V") to the environment.
	Args []string
	Env  []string
	// ReadyTimeout bounds the wait for the health endpoint; a minute when zero.
	ReadyTimeout time.Duration
	// NoWait returns without waiting for the health endpoint, for a start that is meant to fail.
	NoWait bool
}

// ManagerOptions say how to run the controller manager or the webhook manager.
type ManagerOptions struct {
	// Name and Binary are as in SchedulerOptions.
	Name   string
	Binary string
	Server string
	Admin  bool
	Args   []string
	Env    []string
	// ReadyTimeout is as in SchedulerOptions.
	ReadyTimeout time.Duration
}
