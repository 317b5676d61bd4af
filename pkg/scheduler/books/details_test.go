// SPDX-License-Identifier: Apache-2.0

package books

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// open returns the snapshot of the next session.
func (b *Books) open() *api.ClusterInfo {
	b.Lock()
	defer b.Unlock()
	return b.Snapshot(api.NewHyperNodesInfo(nil))
}

// TestImagesAreCounted checks that a session sees, for each image of a node, how many nodes had the image when the node
// was last shown.
func TestImagesAreCounted(t *testing.T) {
	b := newBooks(t)
	show := func(name string, images ...string) {
		node := schedtest.MakeNode().Name(name).Obj()
		node.Status.Images = []v1.ContainerImage{{Names: images, SizeBytes: 5}}
		b.Nodes.Show(node)
	}
	counts := func(node string) int {
		if image := b.open().Nodes[node].ImageStates["i"]; image != nil {
			return image.NumNodes
		}
		return 0
	}
	show("m", "i")
	show("n", "i", "i")
	if got := counts("n"); got != 2 {
		t.Errorf("two nodes have the image, and the second is shown %d", got)
	}
	show("m", "other")
	show("n", "i")
	if got := counts("n"); got != 1 {
		t.Errorf("one node has the image, and is shown %d", got)
	}
	show("m", "i")
	b.Nodes.Hide("m")
	b.Nodes.ShowCSI(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) // Showing the CSINode creates the entry again.
	show("n", "i")
	if got := counts("n"); got != 1 {
		t.Errorf("the other node with the image was deleted, and this one is shown %d", got)
	}
}

// TestADeletedNodeIsGone checks that no session sees a node after its deletion: also if a plugin counts resources, and if
// the books made a full snapshot between the sessions.
func TestADeletedNodeIsGone(t *testing.T) {
	for name, counts := range map[string]bool{"no plugin counts": false, "a plugin counts": true} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			if counts {
				b.Nodes.Sums.Use(countsNothing{})
			}
			b.Nodes.Show(schedtest.MakeNode().Name("deleted").Obj())
			for _, node := range b.open().Nodes {
				b.Copies().NoteFits(node)
			}
			b.Nodes.Hide("deleted")
			b.Lock()
			b.Full(api.NewHyperNodesInfo(nil), true)
			b.Unlock()
			b.Copies().Trust(snapshot.Touched{})
			given := b.open()
			forms := b.Copies().Forms(given.Nodes)
			if len(given.Nodes) != 1 || given.Nodes["n"] == nil || len(forms.Kube) != 1 {
				t.Errorf("a session sees the nodes %v, and %d in Kubernetes' form, want only n", slices.Collect(maps.Keys(given.Nodes)), len(forms.Kube))
			}
			if left := b.Nodes.recent.list.Len(); left != 1 {
				t.Errorf("%d entries are listed by generation, want that of n", left)
			}
		})
	}
}

// TestARecreatedEntryKeepsItsReport checks that an entry that is created again keeps the reports about its node, such
// as its load and its CSINode.
func TestARecreatedEntryKeepsItsReport(t *testing.T) {
	b := newBooks(t)
	node := schedtest.MakeNode().Name("n").Obj()
	node.Status.Images = []v1.ContainerImage{{Names: []string{"i"}}}
	b.Nodes.Show(node)
	b.Nodes.SetUsage(map[string]*api.NodeUsage{"n": {CPUUsageAvg: map[string]float64{"p": 7}}})
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "csi", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(3))}}}
	b.Nodes.ShowCSI(csi)
	given := b.open().Nodes["n"]
	if given.ResourceUsage.CPUUsageAvg["p"] != 7 || given.ImageStates["i"] == nil {
		t.Errorf("the load is %v and the images are %v", given.ResourceUsage, given.ImageStates)
	}
	if got := given.Allocatable.ScalarResources[AttachLimit("csi")]; got != 3 {
		t.Errorf("the node attaches %v volumes, want 3", got)
	}
	b.Nodes.HideCSI("n")
	if got, limited := b.open().Nodes["n"].Allocatable.ScalarResources[AttachLimit("csi")]; limited {
		t.Errorf("the node attaches %v volumes although its CSINode was deleted", got)
	}
	b.Nodes.SetUsage(map[string]*api.NodeUsage{"n": {CPUUsageAvg: map[string]float64{"p": 8}}})
	if got := b.open().Nodes["n"].ResourceUsage.CPUUsageAvg["p"]; got != 8 {
		t.Errorf("the load is %v, want 8, the last", got)
	}
}

// TestReportedCPUsKeepTheAssignedOnes checks that CPUs assigned by sessions stay assigned when the node reports fewer CPUs, even
// if the node is shown again before the next session. When it reports more CPUs, a session sees what it reports.
func TestReportedCPUsKeepTheAssignedOnes(t *testing.T) {
	b := newBooks(t)
	show := func(cpus string) {
		numa := &nodeinfov1alpha1.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		numa.Spec.NumaResMap = map[string]nodeinfov1alpha1.ResourceInfo{"cpu": {Allocatable: cpus}}
		b.Nodes.ShowNUMA(numa)
		b.Nodes.Show(schedtest.MakeNode().Name("n").Obj())
	}
	free := func() string { return b.open().Nodes["n"].NumaSchedulerInfo.NumaResMap["cpu"].Allocatable.String() }
	show("0-3")
	if got := free(); got != "0-3" {
		t.Errorf("CPUs %s are free at first, want 0-3", got)
	}
	b.Nodes.TakeCPUs(map[string]api.ResNumaSets{"n": {"cpu": cpuset.New(0, 1, 2)}})
	show("0-2")
	if got := free(); got != "3" {
		t.Errorf("CPUs %s are free after the decrease, want 3 until the agent counts the assigned ones", got)
	}
	show("0-5")
	if got := free(); got != "0-5" {
		t.Errorf("CPUs %s are free after the increase, want 0-5", got)
	}
}

// TestTables: The lowest of several global default priorities counts. The removal of a namespace's last quota removes
// the namespace.
func TestTables(t *testing.T) {
	tables := newTables()
	for name, value := range map[string]int32{"a": 5, "b": 3, "c": 9} {
		tables.Priorities[name] = &schedulingv1.PriorityClass{Value: value, GlobalDefault: true}
	}
	if got := tables.DefaultPriority(); got != 3 {
		t.Errorf("the default priority is %d, want 3", got)
	}
	quota := func(name string) *v1.ResourceQuota {
		q := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		q.Status.Hard = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
		return q
	}
	tables.ShowQuota(quota("a"))
	tables.ShowQuota(quota("b"))
	tables.HideQuota(quota("a"))
	if got := tables.Quotas["ns"]; got == nil || len(got.QuotaStatus) != 1 {
		t.Errorf("the namespace has quotas %v, want b", got)
	}
	tables.HideQuota(quota("b"))
	if len(tables.Quotas) > 0 {
		t.Errorf("namespaces without quotas are kept: %v", tables.Quotas)
	}
}

// TestASessionSeesTheHyperNodeThatWasNoted checks that a session sees the recorded HyperNode of a gang in the job's
// field and in the PodGroup's annotation. Separate calls record these two.
func TestASessionSeesTheHyperNodeThatWasNoted(t *testing.T) {
	b := newBooks(t)
	b.Tables.ShowQueue(&scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: schedtest.Queue}})
	decided := b.open().Jobs[gang].Clone()
	decided.AllocatedHyperNode = "leaf"
	b.Jobs.NoteHyperNodes(decided)
	if got := b.open().Jobs[gang].AllocatedHyperNode; got != "leaf" {
		t.Errorf("the gang's HyperNode is %q, want leaf", got)
	}
	decided.PodGroup.Annotations[api.JobAllocatedHyperNode] = "leaf"
	b.Jobs.NoteHyperNode(decided)
	if got := b.open().Jobs[gang].PodGroup.Annotations[api.JobAllocatedHyperNode]; got != "leaf" {
		t.Errorf("the annotation is %q, want leaf", got)
	}
}
