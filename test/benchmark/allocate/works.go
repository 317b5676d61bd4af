// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// work is a kind of work, with the bars that our action must reach in comparison with upstream's.
type work struct {
	name, title string
	// shape describes the cluster.
	shape shape
	// ratio is the minimum of upstream's time divided by ours. limit is the maximum of our time, and again the
	// maximum in a second session of the same cluster. Zero means no bar.
	ratio        float64
	limit, again time.Duration
	// like is the name of a work with equal pods. Our time may be at most likeFactor times the time for that work. An
	// empty name means no such bar.
	like string
}

// likeFactor is the maximum time for pods that differ only in fields without any effect on filter results, as a
// multiple of the time for equal pods.
const likeFactor = 1.3

// shape describes a cluster and the gangs that wait in it. All nodes are equal, and so are all pods unless a field
// below makes them differ.
type shape struct {
	nodes           int
	gangs, gangSize int
	// minimum is the minimum of a gang. Zero means all members.
	minimum int
	// cpu is the request of each pod.
	cpu string
	// clusters is the number of InfiniBand clusters of the nodes. Every gang must be in one of them. Zero means no
	// clusters.
	clusters int
	// running describes what the cluster has before the gangs.
	running running
	// apart reports whether two members of a gang must not share a node.
	apart bool
	// packed adds binpack to the scores, so nodes with a member of the gang are the best for the next member.
	packed bool
	// ownNames gives pods the labels and annotations of controllers, which name the pod and its job and have no other
	// effect.
	ownNames bool
	// unlike is the number of different task classes of a gang of 64. They fit together into no cluster of 16 nodes,
	// although there is enough room for each class and in total. A pod of a different size runs on the first node of
	// each cluster. Zero means that the members are equal.
	unlike  int
	storage storage
	dra     dra
	// ownSizes gives each pod a different request.
	ownSizes bool
	// hyperNodes makes gangs require one cluster in upstream's way, as a hard HyperNode, on both sides.
	hyperNodes bool
	// gathered makes gangs require one cluster by a ClusterNetworkTopology, with a multiple of 8 members on each
	// node, on our side.
	gathered bool
	grouped  grouped
	// unlabelled makes the smallest member of each gang require a label that no node has, so all gangs wait. Another
	// namespace has a gang of one pod, which is placed.
	unlabelled bool
	// exact gives the members four sizes. One member of each size fills a node exactly.
	exact bool
}

// running describes the pods and taints that the cluster has before the gangs, and a change of the pods.
type running struct {
	// spoilt reports whether a gang of 512 fits only in the second-to-last cluster, although every other cluster has
	// enough resources in total.
	spoilt bool
	// free is the number of nodes with room for one pod each, if not zero. It is smaller than a gang, so all gangs
	// wait.
	free int
	// antiAffinity gives one running pod required anti-affinity to pods that do not exist.
	antiAffinity bool
	// changing reports whether a pod is added on a node before the second session of the same cluster.
	changing bool
}

// storage describes the claims of pods and the volumes for them.
type storage struct {
	// claims gives each pod a separate claim, whose volume is created where the pod is placed. With clusters the
	// volumes are local, and every cluster except the second-to-last lacks a volume.
	claims bool
	// capacities gives each node a storage capacity for the volumes of claims. local gives it a volume instead.
	capacities, local bool
	// bound binds each claim to its volume in advance. All nodes reach the volume, or only one node with local.
	bound bool
}

// dra describes the devices that pods claim.
type dra struct {
	// devices is the number of devices of each node. Each pod has a claim of one device, created from a template.
	// Zero means no devices.
	devices int
	// shared is the number of device slices that all nodes reach. No device in them suits the claims: pods wait for a
	// model that no node has. One of the slices changes before the second session of the same cluster.
	shared int
}

// grouped describes the groups of gangs, and the groups in a gang.
type grouped struct {
	// subGroups is the number of sub-groups of each gang. Zero means none.
	subGroups int
	// together is the number of gangs in a gang group, on our side: upstream has no gang groups. Zero means no
	// groups.
	together int
	// secondCPU is the request of each pod in the second gang of a group. If it is empty, the request is cpu.
	secondCPU string
}

// The resources of a node, and of the pods that spoil one.
const (
	nodeCPU    = "32"
	nodeMemory = "256Gi"
	spoilCPU   = "13"
)

// spoilTaint is the taint on nodes of clusters that are spoilt by taints.
const spoilTaint = "maintenance"

// works returns the kinds of work of the table.
func works() []work {
	return []work{
		{name: "cold", title: "5,000 nodes, one 512-task gang, cold", ratio: 40,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 512, cpu: "1"}},
		{name: "gangs50", title: "1,000 nodes, 100 gangs of 50", ratio: 80,
			shape: shape{nodes: 1000, gangs: 100, gangSize: 50, cpu: "1"}},
		{name: "gangs500", title: "5,000 nodes, 20 gangs of 500", ratio: 120,
			shape: shape{nodes: 5000, gangs: 20, gangSize: 500, cpu: "1"}},
		{name: "singles", title: "1,000 nodes, 5,000 gangs of 1", ratio: 40,
			shape: shape{nodes: 1000, gangs: 5000, gangSize: 1, cpu: "1"}},
		{name: "misfits", title: "5,000 nodes, 10,000 pods that fit nowhere", ratio: 20,
			shape: shape{nodes: 5000, gangs: 200, gangSize: 50, cpu: "33"}},
		{name: "ib", title: "512-task gang into 1 of 40 IB clusters", ratio: 40, limit: 200 * time.Millisecond,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 512, cpu: "4", clusters: 40, running: running{spoilt: true}}},
		{name: "gathered", title: "512-task gang gathered in 1 of 40 blocks, on nodes of eights", ratio: 40, limit: time.Second,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 512, cpu: "4", clusters: 40, running: running{spoilt: true}, gathered: true}},
		{name: "coupled", title: "400-task gang, each on a node of its own, 1,000 nodes", ratio: 5,
			shape: shape{nodes: 1000, gangs: 1, gangSize: 400, cpu: "1", apart: true}},
		{name: "packedapart", title: "1,000-task gang, each on a node of its own, 1,000 nodes, with binpack", ratio: 15,
			shape: shape{nodes: 1000, gangs: 1, gangSize: 1000, cpu: "1", apart: true, packed: true}},
		{name: "ownlabels", title: "1,000 nodes, 5,000 gangs of 1, with labels and annotations of their own", ratio: 40, like: "singles",
			shape: shape{nodes: 1000, gangs: 5000, gangSize: 1, cpu: "1", ownNames: true}},
		{name: "podlabels", title: "5,000 nodes, one 512-task gang, with labels and annotations of their own", ratio: 40, like: "cold",
			shape: shape{nodes: 5000, gangs: 1, gangSize: 512, cpu: "1", ownNames: true}},
		{name: "unlike2", title: "64 members of 2 kinds that fit into none of 64 IB clusters", limit: 100 * time.Millisecond, again: 5 * time.Millisecond,
			shape: shape{nodes: 1024, gangs: 1, gangSize: 64, clusters: 64, unlike: 2}},
		{name: "unlike16", title: "64 members of 16 kinds that fit into none of 64 IB clusters", limit: 100 * time.Millisecond, again: 5 * time.Millisecond,
			shape: shape{nodes: 1024, gangs: 1, gangSize: 64, clusters: 64, unlike: 16}},
		{name: "unlike5", title: "5 such gangs of 16 kinds", limit: 100 * time.Millisecond, again: 5 * time.Millisecond,
			shape: shape{nodes: 1024, gangs: 5, gangSize: 64, clusters: 64, unlike: 16}},
		{name: "changing", title: "5 such gangs, and a pod comes to a node", limit: 100 * time.Millisecond, again: 50 * time.Millisecond,
			shape: shape{nodes: 1024, gangs: 5, gangSize: 64, clusters: 64, unlike: 16, running: running{changing: true}}},
		{name: "unlikehyper", title: "64 members of 16 kinds that fit into none of 64 hard HyperNodes", ratio: 40, limit: 100 * time.Millisecond, again: 50 * time.Millisecond,
			shape: shape{nodes: 1024, gangs: 1, gangSize: 64, clusters: 64, unlike: 16, hyperNodes: true}},
		{name: "unlikecells", title: "64 members of 16 kinds in 8 sub-groups that fit into none of 64 IB clusters", limit: 100 * time.Millisecond, again: 50 * time.Millisecond,
			shape: shape{nodes: 1024, gangs: 1, gangSize: 64, clusters: 64, unlike: 16, grouped: grouped{subGroups: 8}}},
		{name: "groups50", title: "1,000 nodes, 50 groups of 2 gangs of 50", ratio: 80, like: "gangs50",
			shape: shape{nodes: 1000, gangs: 100, gangSize: 50, cpu: "1", grouped: grouped{together: 2}}},
		{name: "group8", title: "one group of 8 gangs of 512 that needs 8 of 40 IB clusters", ratio: 40, limit: time.Second,
			shape: shape{nodes: 5000, gangs: 8, gangSize: 512, cpu: "4", clusters: 40, grouped: grouped{together: 8}}},
		{name: "misfitgroups", title: "1,000 nodes, 50 groups of 2 gangs of 50, of which the second fits nowhere", limit: 500 * time.Millisecond, again: 100 * time.Millisecond,
			shape: shape{nodes: 1000, gangs: 100, gangSize: 50, cpu: "1", grouped: grouped{together: 2, secondCPU: "33"}}},
		{name: "sizes", title: "5,000 nodes, 300 gangs of 1, each of a size of its own", ratio: 2,
			shape: shape{nodes: 5000, gangs: 300, gangSize: 1, cpu: "1", ownSizes: true}},
		{name: "waiting", title: "1,000 nodes, 10,000 gangs of 2 that wait for a second node", limit: 200 * time.Millisecond, again: 200 * time.Millisecond,
			shape: shape{nodes: 1000, gangs: 10_000, gangSize: 2, cpu: "20", running: running{free: 1}}},
		{name: "waitingapart", title: "1,000 nodes, 2,000 such gangs, and one running pod has required anti-affinity", limit: 200 * time.Millisecond, again: 200 * time.Millisecond,
			shape: shape{nodes: 1000, gangs: 2000, gangSize: 2, cpu: "20", running: running{free: 1, antiAffinity: true}}},
		{name: "kinds100", title: "2,000 nodes, 20 gangs of 100 kinds that wait for some more of the nodes", again: 5 * time.Millisecond,
			shape: shape{nodes: 2000, gangs: 20, gangSize: 100, cpu: "20", ownSizes: true, running: running{free: 90}}},
		{name: "kindschanging", title: "400 nodes, 20 gangs of 300 kinds that lack one of 300 nodes, and a pod comes to a node", limit: time.Second, again: 500 * time.Millisecond,
			shape: shape{nodes: 400, gangs: 20, gangSize: 300, cpu: "20", ownSizes: true, running: running{free: 299, changing: true}}},
		{name: "kindsrefused", title: "300 nodes, 20 gangs of 300 kinds of which one member needs a label that no node has, beside another namespace's gang, and a pod comes to a node", limit: time.Second, again: time.Second,
			shape: shape{nodes: 300, gangs: 20, gangSize: 300, cpu: "20", ownSizes: true, unlabelled: true, running: running{changing: true}}},
		{name: "exact", title: "512 members of 4 shapes that fill 1 of 4 IB clusters of 128 nodes exactly", limit: 200 * time.Millisecond,
			shape: shape{nodes: 512, gangs: 1, gangSize: 512, clusters: 4, exact: true}},
		{name: "claims1000", title: "1,000 nodes, one gang of 200 with a claim each", ratio: 10,
			shape: shape{nodes: 1000, gangs: 1, gangSize: 200, cpu: "1", storage: storage{claims: true}}},
		{name: "claims5000", title: "5,000 nodes, one gang of 200 with a claim each", ratio: 10,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 200, cpu: "1", storage: storage{claims: true}}},
		{name: "claimgangs", title: "1,000 nodes, 1,000 gangs of 4 with a claim each", ratio: 10,
			shape: shape{nodes: 1000, gangs: 1000, gangSize: 4, cpu: "1", storage: storage{claims: true}}},
		{name: "claimsib", title: "16 members with a claim each, for whom 1 of 64 IB clusters of 4 nodes has the local volumes", ratio: 10,
			shape: shape{nodes: 256, gangs: 1, gangSize: 16, cpu: "8", clusters: 64, storage: storage{claims: true}}},
		{name: "capacity5000", title: "5,000 nodes that say how much storage they have, one gang of 200 with a claim each", ratio: 10,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 200, cpu: "1", storage: storage{claims: true, capacities: true}}},
		{name: "local5000", title: "5,000 nodes with a local volume each, one gang of 200 with a claim each", ratio: 10,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 200, cpu: "1", storage: storage{claims: true, local: true}}},
		{name: "bound5000", title: "5,000 nodes, one gang of 200 with a claim each that has its volume", limit: 200 * time.Millisecond,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 200, cpu: "1", storage: storage{claims: true, bound: true}}},
		{name: "boundlocal5000", title: "5,000 nodes, one gang of 200 with a claim each that has its local volume", limit: 200 * time.Millisecond,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 200, cpu: "1", storage: storage{claims: true, bound: true, local: true}}},
		{name: "dra1000", title: "1,000 nodes of 8 devices, one gang of 200 with a device each", ratio: 10,
			shape: shape{nodes: 1000, gangs: 1, gangSize: 200, cpu: "1", dra: dra{devices: 8}}},
		{name: "dra5000", title: "5,000 nodes of 8 devices, one gang of 200 with a device each", ratio: 10,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 200, cpu: "1", dra: dra{devices: 8}}},
		{name: "dragangs", title: "1,000 nodes of 8 devices, 500 gangs of 4 with a device each", ratio: 10,
			shape: shape{nodes: 1000, gangs: 500, gangSize: 4, cpu: "1", dra: dra{devices: 8}}},
		{name: "sharedslices", title: "5,000 nodes of 8 devices that reach 100 shared slices of 64, of which one changes while a pod waits for a device", again: 100 * time.Millisecond,
			shape: shape{nodes: 5000, gangs: 1, gangSize: 1, cpu: "1", dra: dra{devices: 8, shared: 100}}},
	}
}

// pods returns the number of waiting pods.
func (s shape) pods() int { return s.gangs * s.gangSize }

// podsPerNode returns how many equal pods fit on an empty node.
func (s shape) podsPerNode() int64 {
	if s.exact {
		return 4
	}
	has, needs := resource.MustParse(nodeCPU), resource.MustParse(s.cpu)
	return has.Value() / needs.Value()
}

func gangName(gang int) string { return fmt.Sprintf("gang-%05d", gang) }

func podName(gang, i int) string { return fmt.Sprintf("%s-%04d", gangName(gang), i) }

// nodeList returns the nodes.
func (s shape) nodeList() []*v1.Node {
	nodes, err := controlplane.NodeShape{Count: s.nodes, CPU: nodeCPU, Memory: nodeMemory, IBClusters: s.clusters}.Nodes()
	if err != nil {
		panic(err)
	}
	return nodes
}

// world returns the cluster. groups is the side's way to place a gang in one cluster.
func (s shape) world(groups insession.NodeGroups) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{Nodes: s.nodeList()}
	for gang := range s.gangs {
		name := gangName(gang)
		podGroup := schedulertesting.MakePodGroup().Name(name).MinMember(int32(cmp.Or(s.minimum, s.gangSize))).Obj()
		if s.clusters > 0 {
			groups.Require(podGroup)
		}
		if s.grouped.subGroups > 0 {
			podGroup.Spec.SubGroupPolicy = schedulertesting.MakePodGroup().SubGroups("cells", cellLabel, int32(s.grouped.subGroups), int32(s.gangSize/s.grouped.subGroups)).Obj().Spec.SubGroupPolicy
		}
		if s.grouped.together > 0 {
			podGroup.Annotations[gangs.GroupsAnnotation] = s.groupOf(gang)
		}
		w.PodGroups = append(w.PodGroups, podGroup)
		for i := range s.gangSize {
			w.Pods = append(w.Pods, s.pod(gang, i))
		}
	}
	if s.running.spoilt {
		s.spoil(&w)
	}
	if s.unlike > 0 {
		s.tellApart(&w)
	}
	if s.running.free > 0 {
		for i, node := range w.Nodes[s.running.free:] {
			w.Pods = append(w.Pods, schedulertesting.MakePod().Name(fmt.Sprintf("running-%04d", i)).Node(node.Name).Phase(v1.PodRunning).
				Req(schedulertesting.Resources{"cpu": spoilCPU, "memory": "1Gi"}).Obj())
		}
	}
	if s.running.antiAffinity {
		w.Pods = append(w.Pods, schedulertesting.MakePod().Name("apart").Node(w.Nodes[0].Name).Phase(v1.PodRunning).Affinity(awayFrom("none")).Obj())
	}
	if s.unlabelled {
		w.PodGroups = append(w.PodGroups, schedulertesting.MakePodGroup().Namespace("other").Name("neighbour").MinMember(1).Obj())
		w.Pods = append(w.Pods, schedulertesting.MakePod().Namespace("other").Name("neighbour").Group("neighbour").Req(schedulertesting.Resources{"cpu": "1"}).Obj())
	}
	if s.clusters > 0 {
		w.HyperNodes = hyperNodes(w.Nodes)
	}
	return w
}

// groupOf returns the gangs of the gang's group.
func (s shape) groupOf(gang int) string {
	first := gang - gang%s.grouped.together
	var names []string
	for i := range s.grouped.together {
		names = append(names, strconv.Quote(schedulertesting.Namespace+"/"+gangName(first+i)))
	}
	return "[" + strings.Join(names, ",") + "]"
}

// pod returns the i-th member of the gang.
func (s shape) pod(gang, i int) *v1.Pod {
	name := gangName(gang)
	pod := schedulertesting.MakePod().Name(podName(gang, i)).Group(name).
		Annotation(rankAnnotation, strconv.Itoa(i)).Req(schedulertesting.Resources{"cpu": s.cpuOf(i), "memory": "1Gi"})
	if s.grouped.secondCPU != "" && gang%s.grouped.together == 1 {
		pod.Req(schedulertesting.Resources{"cpu": s.grouped.secondCPU, "memory": "1Gi"})
	}
	if s.apart {
		pod.Label(gangLabel, name).Affinity(awayFrom(name))
	}
	if s.grouped.subGroups > 0 {
		pod.Label(cellLabel, strconv.Itoa(i%s.grouped.subGroups))
	}
	if s.ownSizes {
		pod.Req(schedulertesting.Resources{"cpu": s.ownSize(gang, i), "memory": "1Gi"})
	}
	if s.unlabelled && i == 0 {
		pod.NodeSelector("rack", "none")
	}
	if s.storage.claims {
		pod.Volume(podName(gang, i))
	}
	if s.dra.devices > 0 {
		pod.MadeClaim(deviceTemplate)
	}
	if s.ownNames {
		pod.Label("app", name).Label("spark-app-selector", name).Label("spark-exec-id", strconv.Itoa(i)).
			Annotation("workflows.argoproj.io/node-name", podName(gang, i)).Annotation("example.com/job-of-"+name, "yes")
	}
	return pod.Obj()
}

// ownSize returns a request that is close to cpu but different for each pod.
func (s shape) ownSize(gang, i int) string {
	cpu := resource.MustParse(s.cpu)
	return fmt.Sprintf("%dm", cpu.MilliValue()+int64(gang*s.gangSize+i))
}

// rankAnnotation has a pod's rank in its gang.
const rankAnnotation = "batch.kubernetes.io/job-completion-index"

// cellLabel has the name of a pod's sub-group.
const cellLabel = "cell"

// gangLabel has the name of a pod's gang, for the anti-affinity of other pods.
const gangLabel = "gang"

// awayFrom returns the required anti-affinity, by node, to pods of the gang.
func awayFrom(gang string) v1.Affinity {
	return v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{gangLabel: gang}}, TopologyKey: v1.LabelHostname,
	}}}}
}

// spoil leaves one cluster unchanged. In two of three other clusters each node has a running pod that leaves 19 of 32
// CPUs. A cluster of 125 nodes then has 2,375 free CPUs: in total enough for 512 pods of 4 CPUs, but only 500 fit. In
// the rest, more than half of the nodes have taints.
func (s shape) spoil(w *sessiontest.ClusterSpec) {
	perCluster := (s.nodes + s.clusters - 1) / s.clusters
	for i, node := range w.Nodes {
		cluster, place := i/perCluster, i%perCluster
		switch {
		case cluster == s.clusters-2:
		case cluster%3 == 2:
			if place%5 < 3 {
				node.Spec.Taints = []v1.Taint{{Key: spoilTaint, Effect: v1.TaintEffectNoSchedule}}
			}
		default:
			w.Pods = append(w.Pods, schedulertesting.MakePod().Name(fmt.Sprintf("running-%04d", i)).Node(node.Name).Phase(v1.PodRunning).
				Req(schedulertesting.Resources{"cpu": spoilCPU, "memory": "1Gi"}).Obj())
		}
	}
}

// cpuOf returns the request of the i-th member of a gang. With unlike, 12 of 64 members request more than half of a
// node, so no two of them share one. Of the other 52, two fit beside each of the 12, and five on an empty node: 44 on
// 16 nodes. With exact, four members fill a node.
func (s shape) cpuOf(i int) string {
	switch large := max(1, s.unlike/4); {
	case s.exact:
		return []string{"13", "9", "7", "3"}[i%4]
	case s.unlike == 0:
		return s.cpu
	case i < 12:
		return fmt.Sprintf("%dm", 17000+50*(i%large))
	default:
		return fmt.Sprintf("%dm", 5400+10*(i%(s.unlike-large)))
	}
}

// tellApart adds a running pod on the first node of each cluster.
func (s shape) tellApart(w *sessiontest.ClusterSpec) {
	perCluster := s.nodes / s.clusters
	for i := 0; i < len(w.Nodes); i += perCluster {
		w.Pods = append(w.Pods, schedulertesting.MakePod().Name(fmt.Sprintf("running-%04d", i)).Node(w.Nodes[i].Name).Phase(v1.PodRunning).
			Req(schedulertesting.Resources{"cpu": fmt.Sprintf("%dm", 100+i), "memory": "1Gi"}).Obj())
	}
}

// newcomer returns a pod that is new on the node and uses little of it.
func newcomer(node *v1.Node) *v1.Pod {
	return schedulertesting.MakePod().Name("newcomer").Node(node.Name).Phase(v1.PodRunning).Req(schedulertesting.Resources{"cpu": "100m", "memory": "1Gi"}).Obj()
}

// hyperNodes returns the InfiniBand clusters as HyperNodes of tier 1.
func hyperNodes(nodes []*v1.Node) []*topologyv1alpha1.HyperNode {
	var list []*topologyv1alpha1.HyperNode
	byName := map[string]*topologyv1alpha1.HyperNode{}
	for _, node := range nodes {
		name := node.Labels[insession.ClusterLabel]
		hyperNode := byName[name]
		if hyperNode == nil {
			hyperNode = &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topologyv1alpha1.HyperNodeSpec{Tier: 1}}
			byName[name] = hyperNode
			list = append(list, hyperNode)
		}
		hyperNode.Spec.Members = append(hyperNode.Spec.Members, topologyv1alpha1.MemberSpec{
			Type:     topologyv1alpha1.MemberTypeNode,
			Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: node.Name}},
		})
	}
	return list
}
