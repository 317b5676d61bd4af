// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/pkg/controllers/framework"
	_ "volcano.sh/volcano/pkg/controllers/podgroup"
)

// TestClaimedPodsAreLeftAlone checks that upstream's controller creates no PodGroup for claimed pods, whichever event
// makes it handle them.
func TestClaimedPodsAreLeftAlone(t *testing.T) {
	claims := func(pod *corev1.Pod) bool { return pod.Labels["gang"] != "" }
	if err := Register(claims); err != nil {
		t.Fatal(err)
	}
	var upstream framework.Controller
	framework.ForeachController(func(c framework.Controller) {
		if c.Name() == name {
			upstream = c
		}
	})
	kube, volcano := fake.NewClientset(), vcfake.NewSimpleClientset()
	opt := &framework.ControllerOption{
		KubeClient: kube, VolcanoClient: volcano, SchedulerNames: []string{"volcano"}, WorkerThreadsForPG: 1, InheritOwnerAnnotations: true,
		SharedInformerFactory: informers.NewSharedInformerFactory(kube, 0), VCSharedInformerFactory: vcinformers.NewSharedInformerFactory(volcano, 0),
	}
	pod := func(name, app string, owners ...metav1.OwnerReference) {
		labels := map[string]string{"app": app}
		if name != "plain" {
			labels["gang"] = "g"
		}
		_, err := kube.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "1", Labels: labels, OwnerReferences: owners},
			Spec:       corev1.PodSpec{SchedulerName: "volcano"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "w", UID: "2"}
	pod("alone", "none")
	pod("of-replicas", "rs", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "w", UID: "2", Controller: new(true)})
	if err := upstream.Initialize(opt); err != nil {
		t.Fatal(err)
	}
	upstream.Run(t.Context().Done())
	_, err := kube.AppsV1().ReplicaSets("ns").Create(t.Context(), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "rs"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod("plain", "none") // the last pod that the only worker handles
	listed := func() bool {
		return slices.ContainsFunc(kube.Actions(), func(action clienttesting.Action) bool {
			list, ok := action.(clienttesting.ListAction)
			return ok && action.GetResource().Resource == "pods" && list.GetListRestrictions().Labels.String() == "app=rs"
		})
	}
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := volcano.SchedulingV1beta1().PodGroups("ns").Get(ctx, "podgroup-1", metav1.GetOptions{})
		return err == nil && listed(), nil
	})
	if err != nil {
		t.Fatal("upstream's controller has not finished:  ", err)
	}
	groups, err := volcano.SchedulingV1beta1().PodGroups("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var owners []string
	for _, group := range groups.Items {
		owners = append(owners, group.OwnerReferences[0].Name)
	}
	if diff := cmp.Diff([]string{"plain"}, owners); diff != "" {
		t.Errorf("pods with a created PodGroup (-want +got):\n%s", diff)
	}
	// Upstream's controller lists the pods of a StatefulSet with the lister.
	found, err := (&factory{opt.SharedInformerFactory, claims}).Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil || len(found) != 1 || found[0].Name != "plain" {
		t.Errorf("listed: %v, %v", found, err)
	}
}
