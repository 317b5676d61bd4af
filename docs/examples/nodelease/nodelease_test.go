// SPDX-License-Identifier: Apache-2.0

package nodelease

import (
	"errors"
	"go/parser"
	"go/token"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

type handle struct {
	framework.Handle
	client kubernetes.Interface
}

func (h handle) KubeClient() kubernetes.Interface { return h.client }

func newPlugin(t *testing.T, client kubernetes.Interface) *plugin {
	t.Helper()
	built, err := Spec().New(framework.Arguments{"nodelease.namespace": "claims"}, handle{client: client})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return built.(*plugin)
}

// exclusivePod returns a pod with ExclusiveAnnotation. An empty node means that the pod is not bound.
func exclusivePod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name + "-uid"),
			Annotations: map[string]string{ExclusiveAnnotation: "true"},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// task returns a task with its own copy of the pod, as a step receives it.
func task(pod *corev1.Pod) *api.TaskInfo { return api.NewTaskInfo(pod.DeepCopy()) }

// held returns the holder of each claimed node, by the node's name.
func held(t *testing.T, client kubernetes.Interface) map[string]string {
	t.Helper()
	list, err := client.CoordinationV1().Leases("claims").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Labels[nodeLabel]] = identityOf(&list.Items[i])
	}
	return out
}

func TestPreBindAndRollback(t *testing.T) {
	a, b := exclusivePod("a", ""), exclusivePod("b", "")
	client := fake.NewClientset(a, b)
	p := newPlugin(t, client)
	first := task(a)
	for range 2 { // A step is idempotent.
		if err := p.PreBind(t.Context(), first, "n"); err != nil {
			t.Fatalf("PreBind(a) = %v", err)
		}
	}
	wantAnnotations := maps.Clone(a.Annotations)
	wantAnnotations[LeaseAnnotation] = "nodelease-n"
	if diff := cmp.Diff(wantAnnotations, first.Pod.Annotations); diff != "" {
		t.Errorf("annotations of the task's own pod (-want +got):\n%s", diff)
	}
	want := "claiming node n: it is claimed by ns/a/a-uid"
	if err := p.PreBind(t.Context(), task(b), "n"); err == nil || err.Error() != want {
		t.Errorf("PreBind(b) = %v, want %s", err, want)
	}
	// A failed step is rolled back too. The rollback must not delete the claim of another pod.
	if err := p.Rollback(t.Context(), task(b), "n"); err != nil {
		t.Errorf("Rollback(b) = %v", err)
	}
	if diff := cmp.Diff(map[string]string{"n": "ns/a/a-uid"}, held(t, client)); diff != "" {
		t.Errorf("claims after the rollback of b (-want +got):\n%s", diff)
	}
	if err := p.Rollback(t.Context(), first, "n"); err != nil {
		t.Errorf("Rollback(a) = %v", err)
	}
	if diff := cmp.Diff(map[string]string{}, held(t, client)); diff != "" {
		t.Errorf("claims after the rollback of a (-want +got):\n%s", diff)
	}
	// A second rollback returns NotFound, which the engine counts as success.
	if err := p.Rollback(t.Context(), first, "n"); !apierrors.IsNotFound(err) {
		t.Errorf("Rollback(a) again = %v, want a NotFound", err)
	}
}

func TestPreBindLeavesOtherPodsAlone(t *testing.T) {
	client := fake.NewClientset()
	p := newPlugin(t, client)
	plain := exclusivePod("plain", "")
	plain.Annotations = nil
	if err := errors.Join(p.PreBind(t.Context(), task(plain), "n"), p.Rollback(t.Context(), task(plain), "n")); err != nil {
		t.Errorf("PreBind and Rollback = %v", err)
	}
	if actions := client.Actions(); len(actions) > 0 {
		t.Errorf("API calls: %v, want none", actions)
	}
}

func TestPreBindTakesOver(t *testing.T) {
	tests := map[string]struct {
		former   *corev1.Pod
		takeOver bool
	}{
		"from a deleted pod":       {takeOver: true},
		"from a pod that finished": {former: succeeded(exclusivePod("a", "n")), takeOver: true},
		"from a pod that was recreated": {
			former:   &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "new"}},
			takeOver: true,
		},
		"not from a running pod": {former: exclusivePod("a", "n")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			p := newPlugin(t, client)
			if err := p.PreBind(t.Context(), task(exclusivePod("a", "")), "n"); err != nil {
				t.Fatalf("PreBind(a) = %v", err)
			}
			if tc.former != nil {
				if err := client.Tracker().Add(tc.former); err != nil {
					t.Fatal(err)
				}
			}
			err := p.PreBind(t.Context(), task(exclusivePod("b", "")), "n")
			if (err == nil) != tc.takeOver {
				t.Errorf("PreBind(b) = %v", err)
			}
			want := map[string]string{"n": "ns/a/a-uid"}
			if tc.takeOver {
				want["n"] = "ns/b/b-uid"
			}
			if diff := cmp.Diff(want, held(t, client)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func succeeded(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	return pod
}

// TestRecover checks which claims of a scheduler that died are kept: only the claim of pod bound, which is on its node.
// Pod half has a claim but is not bound, gone was deleted, and done has finished.
func TestRecover(t *testing.T) {
	client := fake.NewClientset(exclusivePod("bound", "n1"), exclusivePod("half", ""), exclusivePod("done", "n4"))
	p := newPlugin(t, client)
	for name, node := range map[string]string{"bound": "n1", "half": "n2", "gone": "n3", "done": "n4"} {
		if err := p.PreBind(t.Context(), task(exclusivePod(name, "")), node); err != nil {
			t.Fatalf("PreBind(%s) = %v", name, err)
		}
	}
	if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), succeeded(exclusivePod("done", "n4")), "ns"); err != nil {
		t.Fatal(err)
	}
	if err := p.Recover(t.Context()); err != nil {
		t.Fatalf("Recover() = %v", err)
	}
	if diff := cmp.Diff(map[string]string{"n1": "ns/bound/bound-uid"}, held(t, client)); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestRecoverKeepsClaimsThatItCannotCheck checks that Recover keeps a claim that it cannot check. Its error makes the
// scheduler call it again.
func TestRecoverKeepsClaimsThatItCannotCheck(t *testing.T) {
	client := fake.NewClientset()
	p := newPlugin(t, client)
	if err := p.PreBind(t.Context(), task(exclusivePod("a", "")), "n"); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API server is down")
	})
	want := "claim claims/nodelease-n: the API server is down"
	if err := p.Recover(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Recover() = %v, want %s", err, want)
	}
	if diff := cmp.Diff(map[string]string{"n": "ns/a/a-uid"}, held(t, client)); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestImportsOnlyTheFramework checks that the plugin imports only the framework package of the scheduler.
func TestImportsOnlyTheFramework(t *testing.T) {
	const module = "github.com/volcano-prebind/volcano-prebind/"
	imported := map[string]bool{}
	for _, file := range []string{"plugin.go", "claims.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(path, module) {
				imported[strings.TrimPrefix(path, module)] = true
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"pkg/scheduler/framework": true}, imported); diff != "" {
		t.Errorf("imports from the scheduler's module (-want +got):\n%s", diff)
	}
}
