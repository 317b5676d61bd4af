// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// claim creates a claim after its pods, or deletes it.
func claim(h *history) {
	name := fmt.Sprintf("c%d", h.rng.IntN(2))
	h.truth.claims[name] = !h.truth.claims[name]
	h.note("claim %s can be read: %v", name, h.truth.claims[name])
	for _, pod := range h.truth.pods {
		if len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != name {
			continue
		}
		if h.truth.unread[pod.UID] {
			h.truth.settle(pod, true)
		}
		h.books.Pods.ReadClaims(pod)
	}
}

func showNode(h *history) {
	name := h.nodeName()
	node := schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": fmt.Sprint(2 + h.rng.IntN(4)), "pods": "110", string(AttachLimit("csi")): "100"}).Label("zone", h.fresh("z")).Obj()
	node.Status.Images = []v1.ContainerImage{{Names: []string{fmt.Sprintf("image%d", h.rng.IntN(2))}, SizeBytes: int64(h.rng.IntN(9))}}
	h.note("show node %s", name)
	h.truth.nodes[name] = node
	h.books.Nodes.Show(node)
}

func hideNode(h *history) {
	name := h.nodeName()
	h.note("hide node %s", name)
	delete(h.truth.nodes, name)
	h.books.Nodes.Hide(name)
}

// csiNode adds or removes a volume limit, which the pods of this test never reach.
func csiNode(h *history) {
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: h.nodeName()}}
	node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "csi", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(100))}}}
	h.note("CSINode %s", node.Name)
	if h.rng.IntN(2) == 0 {
		h.books.Nodes.HideCSI(node.Name)
		return
	}
	h.books.Nodes.ShowCSI(node)
}

// load records a measured load of a node, which may have been deleted.
func load(h *history) {
	name, usage := h.nodeName(), &api.NodeUsage{CPUUsageAvg: map[string]float64{"10m": float64(h.rng.IntN(100))}}
	h.note("node %s is loaded by %v", name, usage.CPUUsageAvg)
	h.books.Nodes.SetUsage(map[string]*api.NodeUsage{name: usage})
}

func showNUMA(h *history) {
	shown := &nodeinfov1alpha1.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: h.nodeName()}}
	last := 1 + h.rng.IntN(6)
	shown.Spec.NumaResMap = map[string]nodeinfov1alpha1.ResourceInfo{"cpu": {Allocatable: fmt.Sprintf("0-%d", last), Capacity: last + 1}}
	h.note("node %s has CPUs 0 to %d", shown.Name, last)
	h.truth.numa[shown.Name] = true
	h.books.Nodes.ShowNUMA(shown)
}

func hideNUMA(h *history) {
	name := h.nodeName()
	h.note("hide the NUMA topology of %s", name)
	delete(h.truth.numa, name)
	h.books.Nodes.HideNUMA(name)
}

// takeCPUs records CPUs that a session has assigned, possibly CPUs that the node does not have.
func takeCPUs(h *history) {
	name := h.nodeName()
	h.note("take CPU 0 of %s", name)
	h.books.Nodes.TakeCPUs(map[string]api.ResNumaSets{name: {"cpu": cpuset.New(0), "example.com/unknown": cpuset.New(0)}})
}

// noteHyperNode records the HyperNode that a session has chosen for a gang, which may have been deleted.
func noteHyperNode(h *history) {
	decided := &api.JobInfo{UID: api.JobID(schedtest.Namespace + "/" + h.groupName()), AllocatedHyperNode: h.fresh("leaf")}
	if group := h.truth.groups[strings.TrimPrefix(string(decided.UID), schedtest.Namespace+"/")]; group != nil {
		decided.PgUID = group.UID
	}
	decided.PodGroup = &api.PodGroup{}
	decided.PodGroup.Annotations = map[string]string{api.JobAllocatedHyperNode: decided.AllocatedHyperNode}
	h.note("note that %s lies in %s", decided.UID, decided.AllocatedHyperNode)
	h.books.Jobs.NoteHyperNodes(decided)
	h.books.Jobs.NoteHyperNode(decided)
}

func (h *history) putGroup(group *v1beta1.PodGroup) {
	h.note("show PodGroup %s %s", group.Name, group.UID)
	h.truth.groups[group.Name] = group
	if err := h.books.Jobs.ShowGroup(group.DeepCopy()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) newGroup(name string) *v1beta1.PodGroup {
	group := schedtest.MakePodGroup().Name(name).MinMember(int32(h.rng.IntN(3))).Queue([]string{"", "other"}[h.rng.IntN(2)]).
		PriorityClass([]string{"", "high", "none"}[h.rng.IntN(3)]).Obj()
	group.UID = types.UID(h.fresh("g"))
	return group
}

func showGroup(h *history) {
	group := h.newGroup(h.groupName())
	if former := h.truth.groups[group.Name]; former != nil {
		group.UID = former.UID
		group.Status.Phase = []v1beta1.PodGroupPhase{v1beta1.PodGroupInqueue, v1beta1.PodGroupPending}[h.rng.IntN(2)]
	}
	h.putGroup(group)
}

func replaceGroup(h *history) { h.putGroup(h.newGroup(h.groupName())) }

func hideGroup(h *history) {
	name := h.groupName()
	h.note("hide PodGroup %s", name)
	delete(h.truth.groups, name)
	h.books.Jobs.HideGroup(api.JobID(schedtest.Namespace + "/" + name))
}

func queue(h *history) {
	name := []string{"default", "other"}[h.rng.IntN(2)]
	h.note("show queue %s", name)
	h.truth.queues[name] = true
	h.books.Lock()
	defer h.books.Unlock()
	h.books.Tables.ShowQueue(&scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func noQueue(h *history) {
	h.note("hide queue other")
	delete(h.truth.queues, "other")
	h.books.Lock()
	defer h.books.Unlock()
	h.books.Tables.HideQueue("other")
}

func class(h *history) {
	name, value := []string{"default", "high"}[h.rng.IntN(2)], int32(h.rng.IntN(9))
	h.note("PriorityClass %s is %d", name, value)
	h.truth.classes[name] = value
	h.books.Lock()
	defer h.books.Unlock()
	h.books.Tables.Priorities[name] = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: name == "default"}
}
