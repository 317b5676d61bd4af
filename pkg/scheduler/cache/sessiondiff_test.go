// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"go/token"
	"maps"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// exported makes cmp.Diff compare exported fields only.
var exported = cmp.FilterPath(func(path cmp.Path) bool {
	field, ok := path.Last().(cmp.StructField)
	return ok && !token.IsExported(field.Name())
}, cmp.Ignore())

// sessionDiff returns the differences between two newly opened sessions. It is empty if everything that a plugin can
// see is equal.
func sessionDiff(want, got *vcframework.Session) string {
	for _, part := range []struct {
		name      string
		want, got any
	}{
		{"Jobs", want.Jobs, got.Jobs},
		{"Nodes", want.Nodes, got.Nodes},
		{"NodeList", want.NodeList, got.NodeList},
		{"RevocableNodes", want.RevocableNodes, got.RevocableNodes},
		{"Queues", want.Queues, got.Queues},
		{"NamespaceInfo", want.NamespaceInfo, got.NamespaceInfo},
		{"CSINodesStatus", want.CSINodesStatus, got.CSINodesStatus},
		{"NodesInShard", want.NodesInShard, got.NodesInShard},
		{"TotalResource", want.TotalResource, got.TotalResource},
		{"PodGroupOldState", want.PodGroupOldState, got.PodGroupOldState},
		{"DirtyJobs", want.DirtyJobs, got.DirtyJobs},
		{"HyperNodes", want.HyperNodes, got.HyperNodes},
		{"HyperNodeTierNameMap", want.HyperNodeTierNameMap, got.HyperNodeTierNameMap},
		{"HyperNodesSetByTier", want.HyperNodesSetByTier, got.HyperNodesSetByTier},
		{"HyperNodesTiers", want.HyperNodesTiers, got.HyperNodesTiers},
		{"HyperNodesReadyToSchedule", want.HyperNodesReadyToSchedule, got.HyperNodesReadyToSchedule},
		{"RealNodesSet", want.RealNodesSet, got.RealNodesSet},
		{"RealNodesList", nodesByHyperNode(want), nodesByHyperNode(got)},
		{"NodeMap", kubeNodes(want.NodeMap), kubeNodes(got.NodeMap)},
		{"PodLister.Tasks", want.PodLister.Tasks, got.PodLister.Tasks},
		{"PodLister.TaskWithAffinity", want.PodLister.TaskWithAffinity, got.PodLister.TaskWithAffinity},
		{"PodLister's pods", listedPods(want.PodLister), listedPods(got.PodLister)},
	} {
		if reflect.DeepEqual(part.want, part.got) {
			continue
		}
		return fmt.Sprintf("%s (-full +kept; unexported fields are compared but not shown):\n%s", part.name, cmp.Diff(part.want, part.got, exported))
	}
	return strangers(got)
}

// strangers returns a node or task that is represented by different objects in two places of the session.
func strangers(ssn *vcframework.Session) string {
	for name, nodes := range ssn.RealNodesList {
		for _, node := range nodes {
			if ssn.Nodes[node.Name] != node {
				return fmt.Sprintf("RealNodesList[%s] has another node %s than Nodes", name, node.Name)
			}
		}
	}
	for _, node := range slices.Concat(ssn.NodeList, slices.Collect(maps.Values(ssn.RevocableNodes))) {
		if ssn.Nodes[node.Name] != node {
			return fmt.Sprintf("a list has another node %s than Nodes", node.Name)
		}
	}
	for uid, task := range ssn.PodLister.Tasks {
		if ssn.Jobs[task.Job].Tasks[uid] != task {
			return fmt.Sprintf("the PodLister has another task %s than its job", uid)
		}
	}
	for _, job := range ssn.Jobs {
		for uid, task := range job.Tasks {
			if job.TaskStatusIndex[task.Status][uid] != task || job.SubJobs[job.TaskToSubJob[uid]].Tasks[uid] != task {
				return fmt.Sprintf("an index of job %s has another task %s", job.UID, uid)
			}
		}
	}
	return ""
}

func nodesByHyperNode(ssn *vcframework.Session) map[string][]string {
	names := map[string][]string{}
	for hyperNode, nodes := range ssn.RealNodesList {
		for _, node := range nodes {
			names[hyperNode] = append(names[hyperNode], node.Name)
		}
		slices.Sort(names[hyperNode])
	}
	return names
}

// kubeNode is a node as Kubernetes' plugins see it, without the order of pods and the generation.
type kubeNode struct {
	Node                               *v1.Node
	Pods, WithAffinity, WithRequired   map[types.UID]*v1.Pod
	Infos                              map[types.UID]fwk.PodInfo
	UsedPorts                          fwk.HostPortInfo
	Requested, NonZeroReq, Allocatable fwk.Resource
	Images                             map[string]*fwk.ImageStateSummary
	Claims                             map[string]int
}

func kubeNodes(nodes map[string]fwk.NodeInfo) map[string]kubeNode {
	out := map[string]kubeNode{}
	for name, node := range nodes {
		out[name] = kubeNode{
			Node: node.Node(), Pods: podsByUID(node.GetPods()), WithAffinity: podsByUID(node.GetPodsWithAffinity()),
			WithRequired: podsByUID(node.GetPodsWithRequiredAntiAffinity()), Infos: infosByUID(node.GetPods()), UsedPorts: node.GetUsedPorts(),
			Requested: node.GetRequested(), NonZeroReq: node.GetNonZeroRequested(), Allocatable: node.GetAllocatable(),
			Images: node.GetImageStates(), Claims: node.GetPVCRefCounts(),
		}
	}
	return out
}

func podsByUID(infos []fwk.PodInfo) map[types.UID]*v1.Pod {
	pods := map[types.UID]*v1.Pod{}
	for _, info := range infos {
		pods[info.GetPod().UID] = info.GetPod()
	}
	return pods
}

func infosByUID(infos []fwk.PodInfo) map[types.UID]fwk.PodInfo {
	out := map[types.UID]fwk.PodInfo{}
	for _, info := range infos {
		out[info.GetPod().UID] = info
	}
	return out
}

func listedPods(lister *vcframework.PodLister) map[api.TaskID]*v1.Pod {
	pods := map[api.TaskID]*v1.Pod{}
	for uid, task := range lister.Tasks {
		pods[uid] = lister.GetPod(task)
	}
	return pods
}
