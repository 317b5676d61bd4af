// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/apis/pkg/client/clientset/versioned/fake"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
)

// TestAPodGroupThatIsAddedInqueueIsAChange checks that the addition of a PodGroup in phase Inqueue counts as a
// change. Otherwise the job controller never creates the pods of its Job.
func TestAPodGroupThatIsAddedInqueueIsAChange(t *testing.T) {
	podGroup := func(name, owner string, phase v1beta1.PodGroupPhase) *v1beta1.PodGroup {
		return &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: owner, Kind: "Job", Name: name}}},
			Status:     v1beta1.PodGroupStatus{Phase: phase},
		}
	}
	const volcano = "batch.volcano.sh/v1alpha1"
	client := fake.NewSimpleClientset( //nolint:staticcheck // NewClientset does not support these kinds.
		podGroup("inqueue", volcano, v1beta1.PodGroupInqueue),
		podGroup("pending", volcano, v1beta1.PodGroupPending),
		podGroup("new", volcano, ""),
		podGroup("running", volcano, v1beta1.PodGroupRunning),
		podGroup("unknown", volcano, v1beta1.PodGroupUnknown), // The policies of its Job would run once more.
		podGroup("completed", volcano, v1beta1.PodGroupCompleted),
		podGroup("of-a-kubernetes-job", "batch/v1", v1beta1.PodGroupInqueue),
	)
	informers := vcinformers.NewSharedInformerFactory(client, 0)
	var mu sync.Mutex
	var added, changed []string
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			mu.Lock()
			defer mu.Unlock()
			added = append(added, object.(*v1beta1.PodGroup).Name)
		},
		UpdateFunc: func(before, after any) {
			mu.Lock()
			defer mu.Unlock()
			from, to := before.(*v1beta1.PodGroup), after.(*v1beta1.PodGroup)
			changed = append(changed, to.Name+": "+string(from.Status.Phase)+" to "+string(to.Status.Phase))
		},
	}
	registration, err := Factory(informers).Scheduling().V1beta1().PodGroups().Informer().AddEventHandler(handler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	defer informers.Shutdown()
	defer stop()
	informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		t.Fatal("the handler has not been called for all PodGroups")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(added) != 7 {
		t.Errorf("added are %q, want all seven", added)
	}
	if want := []string{"inqueue: Pending to Inqueue"}; !slices.Equal(changed, want) {
		t.Errorf("changed are %q, want %q", changed, want)
	}
}
