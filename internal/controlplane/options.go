// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"io"
	"time"
)

// Component names a process of the control plane.
type Component string

// The components of a control plane.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	KWOK              Component = "kwok"
)

// Options configure a control plane. The zero value starts every component, with binaries from the repository's bin/.
type Options struct {
	// BinDir is the directory of the binaries; by default bin/ in the directory with the repository's go.mod.
	BinDir string
	// Dir is the directory for certificates, data and logs. By default it is a temporary directory, which Stop removes.
	Dir string
	// Progress receives a line for each completed step of the start. nil disables these lines.
	Progress io.Writer
	// NoControllerManager leaves kube-controller-manager out. New namespaces then get no service accounts, no garbage
	// is collected, and no volumes are bound.
	NoControllerManager bool
	// NoKWOK leaves kwok out. Nodes are then never Ready, and bound pods never run.
	NoKWOK bool
	// APIServerArgs and ControllerManagerArgs are additional flags of kube-apiserver and kube-controller-manager.
	APIServerArgs         []string
	ControllerManagerArgs []string
	// Stages are kwok stages, in YAML, in addition to the stages in stages.yaml.
	Stages string
	// ReadyTimeout limits how long each component may take until it is ready. The default is a minute.
	ReadyTimeout time.Duration
}

// NodeShape describes a set of equal simulated nodes.
type NodeShape struct {
	// Count is the number of nodes.
	Count int
	// Prefix is the beginning of the name of each node, by default "node-". A zero-padded index of at least four digits
	// follows; First is the index of the first node.
	Prefix string
	First  int
	// CPU and Memory are the quantities of each node, by default "32" and "256Gi". Pods is the maximum number of pods
	// on each node, by default 110.
	CPU, Memory string
	Pods        int
	// GPUs is the amount of nvidia.com/gpu of each node. RDMA is the amount of the resource with the name RDMAResource,
	// by default "rdma/hca".
	GPUs         int
	RDMA         int
	RDMAResource string
	// IBClusters is the number of InfiniBand clusters, named ib-0, ib-1 and so on. Each cluster gets an equal number of
	// consecutive nodes. The label IBClusterLabel, by default "ibcluster", has the name of a node's cluster; with 0
	// clusters the nodes have no such label. In a cluster, NodesPerLeaf nodes (default 16) share a leaf switch (label
	// "leaf"), and LeavesPerSpine leaves (default 4) share a spine (label "spine"). The names of leaves and spines
	// begin with the name of their cluster.
	IBClusters     int
	IBClusterLabel string
	NodesPerLeaf   int
	LeavesPerSpine int
	// Labels and Annotations are added to each node.
	Labels      map[string]string
	Annotations map[string]string
}

// SchedulerKind selects the binary of a scheduler. The binary determines the flags.
type SchedulerKind string

// The kinds of scheduler. The zero value is Ours.
const (
	// Ours is the scheduler of this project, bin/vc-scheduler.
	Ours SchedulerKind = "vc-scheduler"
	// Upstream is upstream Volcano's scheduler, bin/upstream-vc-scheduler.
	Upstream SchedulerKind = "upstream-vc-scheduler"
	// KubeScheduler is bin/kube-scheduler. For this kind, SchedulerOptions.Conf is a KubeSchedulerConfiguration and may
	// be empty. StartScheduler sets its clientConnection and leaderElection.
	KubeScheduler SchedulerKind = "kube-scheduler"
)

// ConfLayout is how the scheduler's configuration file is stored and replaced.
type ConfLayout int

const (
	// ConfFile is a plain file. It is replaced by renaming a file with the new version to its name.
	ConfFile ConfLayout = iota
	// ConfMount is the layout of a ConfigMap that a kubelet mounts. The file is a link into ..data, and ..data is a link to
	// a directory of one version. A rename replaces ..data.
	ConfMount
)

// SchedulerOptions configure a scheduler process.
type SchedulerOptions struct {
	// Name is the name of the process's log and files; by default the kind. A number is appended if the name was used
	// before.
	Name string
	Kind SchedulerKind
	// Binary is the path of the binary. If it is empty, Kind determines the binary.
	Binary string
	// Conf is the text of volcano-scheduler.conf. The default is the chart's configuration or, for upstream's scheduler,
	// the part of it that upstream supports.
	Conf   string
	Layout ConfLayout
	// Server, if not empty, replaces the URL of the API server, for example by the URL of a fault proxy.
	Server string
	// Admin runs the process as cluster admin instead of as the chart's service account.
	Admin bool
	// LeaderElect enables leader election, in the chart's namespace.
	LeaderElect bool
	// Args are appended to the flags, and Env ("K=V") to the environment.
	Args []string
	Env  []string
	// ReadyTimeout limits how long StartScheduler waits until the health endpoint responds. The default is
	// Options.ReadyTimeout.
	ReadyTimeout time.Duration
	// NoWait makes StartScheduler return without waiting for the health endpoint, for a start that is expected to fail.
	NoWait bool
}

// ManagerOptions configure the controller manager or the webhook manager.
type ManagerOptions struct {
	// Name is the name of the process and of its log and files. Binary is the path of its binary. The defaults are
	// the name of the manager's command, and that command in Options.BinDir.
	Name   string
	Binary string
	Server string
	Admin  bool
	Args   []string
	Env    []string
	// ReadyTimeout limits how long the start waits until the process is ready. The default is Options.ReadyTimeout.
	ReadyTimeout time.Duration
}
