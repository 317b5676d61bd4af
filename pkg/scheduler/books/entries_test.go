// SPDX-License-Identifier: Apache-2.0

package books

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const gang = api.JobID(schedtest.Namespace + "/g")

func newBooks(t *testing.T) *Books {
	t.Helper()
	b := New(Config{DefaultQueue: schedtest.Queue})
	b.Nodes.Show(schedtest.MakeNode().Name("n").Obj())
	if err := b.Jobs.ShowGroup(schedtest.MakePodGroup().Name("g").Obj()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAReplacedPodGroupStartsOver checks that a PodGroup that replaces another of the same name does not inherit its
// HyperNode, whether or not the watch showed the deletion.
func TestAReplacedPodGroupStartsOver(t *testing.T) {
	tests := map[string]struct {
		between func(*Books)
		uid     types.UID
		want    string
	}{
		"a change":                     {uid: schedtest.MakePodGroup().Name("g").Obj().UID, want: "leaf"},
		"an end that the watch missed": {uid: "another"},
		"an end":                       {uid: "another", between: func(b *Books) { b.Jobs.HideGroup(gang) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			b.Pods.Show(schedtest.MakePod().Name("p").Group("g").Obj())
			b.Jobs.NoteHyperNodes(&api.JobInfo{UID: gang, PgUID: b.Jobs.Get(gang).PgUID, AllocatedHyperNode: "leaf"})
			if tt.between != nil {
				tt.between(b)
			}
			group := schedtest.MakePodGroup().Name("g").MinMember(2).Obj()
			group.UID = tt.uid
			if err := b.Jobs.ShowGroup(group); err != nil {
				t.Fatal(err)
			}
			if got := b.Jobs.Get(gang).AllocatedHyperNode; got != tt.want {
				t.Errorf("the gang's HyperNode is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOwnersOfAnOrphanedPodStay checks that the owners of an orphaned pod stay after its controller was deleted
// without its pods. The informer's object is not changed.
func TestOwnersOfAnOrphanedPodStay(t *testing.T) {
	b := newBooks(t)
	owned := schedtest.MakePod().Name("p").Group("g").Obj()
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", Controller: new(true)}}
	orphaned := owned.DeepCopy()
	orphaned.OwnerReferences = nil
	b.Pods.Show(owned)
	b.Pods.Show(orphaned)
	if got := b.Pods.Task(api.PodKey(owned), owned.UID).Pod.OwnerReferences; len(got) != 1 {
		t.Errorf("the pod has owners %v in the books, want the one it had", got)
	}
	if len(orphaned.OwnerReferences) > 0 {
		t.Error("the informer's object was written to")
	}
}

// TestADecisionForAResourceThatTheNodeLacksIsSurvived checks that a NUMA decision for a resource that the node lacks
// does not panic. A tenant may write the annotation, and upstream panics on it.
func TestADecisionForAResourceThatTheNodeLacksIsSurvived(t *testing.T) {
	b := newBooks(t)
	b.Nodes.ShowNUMA(&nodeinfov1alpha1.Numatopology{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       nodeinfov1alpha1.NumatopoSpec{NumaResMap: map[string]nodeinfov1alpha1.ResourceInfo{"cpu": {Allocatable: "0-3", Capacity: 4}}},
	})
	pod := schedtest.MakePod().Name("p").Node("n").Phase(v1.PodRunning).
		Annotation("volcano.sh/topology-decision", `{"numa":{"0":{"example.com/unknown":"1"}}}`).Obj()
	b.Pods.Show(pod)
	if b.Nodes.Get("n").Tasks[api.PodKey(pod)] == nil || b.Nodes.Get("n").NumaInfo == nil {
		t.Error("the node lacks the pod, or its NUMA topology")
	}
	b.Pods.Hide(pod)
	if len(b.Nodes.Get("n").Tasks) > 0 {
		t.Error("the pod is still on the node")
	}
}

// TestANoteIsOfItsPodGroup checks that a recorded HyperNode applies to its PodGroup only. The PodGroup of the session
// that records it may have been deleted, and another may have its name.
func TestANoteIsOfItsPodGroup(t *testing.T) {
	tests := map[string]func(*Books) error{
		"another is shown": showOther,
		"none is shown":    func(*Books) error { return nil },
	}
	for name, replace := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			b.Pods.Show(schedtest.MakePod().Name("p").Group("g").Obj())
			decided := b.Jobs.Get(gang).Clone()
			decided.AllocatedHyperNode = "leaf"
			decided.PodGroup.Annotations[api.JobAllocatedHyperNode] = "leaf"
			b.Jobs.HideGroup(gang)
			if err := replace(b); err != nil {
				t.Fatal(err)
			}
			b.Jobs.NoteHyperNode(decided)
			b.Jobs.NoteHyperNodes(decided)
			if err := showOther(b); err != nil {
				t.Fatal(err)
			}
			if got := b.Jobs.Get(gang).AllocatedHyperNode; got != "" {
				t.Errorf("the gang has HyperNode %q of the former gang", got)
			}
		})
	}
	t.Run("its annotation", func(t *testing.T) {
		b := newBooks(t)
		decided := b.Jobs.Get(gang).Clone()
		decided.PodGroup.Annotations[api.JobAllocatedHyperNode] = "leaf"
		if err := showOther(b); err != nil {
			t.Fatal(err)
		}
		b.Jobs.NoteHyperNode(decided)
		if got := b.Jobs.Get(gang).PodGroup.Annotations[api.JobAllocatedHyperNode]; got != "" {
			t.Errorf("the gang's annotation is %q, which is the former one's", got)
		}
	})
}

func showOther(b *Books) error {
	group := schedtest.MakePodGroup().Name("g").Obj()
	group.UID = "other"
	return b.Jobs.ShowGroup(group)
}
