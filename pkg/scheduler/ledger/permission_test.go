// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// reviews makes the API server answer questions about permissions, and records for what these ask.
type reviews struct {
	answer authorizationv1.SubjectAccessReviewStatus
	err    error
	asked  []authorizationv1.ResourceAttributes
}

func (r *reviews) react(action kubetesting.Action) (bool, runtime.Object, error) {
	review := action.(kubetesting.CreateActionImpl).Object.(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
	r.asked = append(r.asked, *review.Spec.ResourceAttributes)
	review.Status = r.answer
	return true, review, r.err
}

// TestForbiddenEvictions checks that a pod whose eviction is forbidden is deleted only if this scheduler may not ask for evictions.
// Webhooks, budgets and a server that has just started also forbid evictions.
func TestForbiddenEvictions(t *testing.T) {
	forbids := func(name, why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/eviction"}, name, fmt.Errorf("%s", why))
	}
	reviewed := []authorizationv1.ResourceAttributes{{Namespace: schedtest.Namespace, Verb: "create", Resource: "pods", Subresource: "eviction"}}
	allowed := authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	undeletable := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p1", nil)
	tests := map[string]struct {
		why string
		// lasts is how long evictions are forbidden. The default is for ever.
		lasts time.Duration
		reviews
		deletion error // of p1; nil if it succeeds
		reviewed []authorizationv1.ResourceAttributes
		gone     []string
		refused  bool
	}{
		"by upstream's role": {
			why: "User cannot create resource", reviewed: reviewed, gone: []string{"p0", "p1", "p2"},
		},
		"by upstream's role, and the pod cannot be deleted": {
			why: "User cannot create resource", deletion: undeletable, reviewed: reviewed, refused: true,
		},
		"by a webhook": {
			why: "admission webhook denied the request", reviews: reviews{answer: allowed}, reviewed: reviewed, refused: true,
		},
		"by a webhook, only at first": {
			why: "admission webhook denied the request", lasts: 150 * time.Millisecond, reviews: reviews{answer: allowed},
			gone: []string{"p0", "p1", "p2"},
		},
		"by a budget": {
			why: "DisruptedPods map too big", reviews: reviews{answer: allowed}, reviewed: reviewed, refused: true,
		},
		"by a server that has just started": {
			why: "User cannot create resource", reviews: reviews{err: forbids("", "RBAC: clusterrole not found")},
			reviewed: reviewed, refused: true,
		},
		"by a server that knows some roles": {
			why:      "User cannot create resource",
			reviews:  reviews{answer: authorizationv1.SubjectAccessReviewStatus{Reason: `RBAC: clusterrole.rbac.authorization.k8s.io "evict" not found`}},
			reviewed: reviewed, refused: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				began, asked := time.Now(), tt.reviews
				w.cluster.Kube.PrependReactor("create", "selfsubjectaccessreviews", asked.react)
				w.cluster.Kube.PrependReactor("create", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
					name := action.(kubetesting.CreateActionImpl).Object.(*policyv1.Eviction).Name
					if tt.lasts == 0 || time.Since(began) < tt.lasts {
						return true, nil, forbids(name, tt.why)
					}
					w.cluster.Remove(w.cluster.Pod(name))
					return true, nil, nil
				})
				w.cluster.Kube.PrependReactor("delete", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
					return tt.deletion != nil && action.(kubetesting.DeleteAction).GetName() == "p1", nil, tt.deletion
				})
				all := w.victims(3)
				all[1].Protected = true
				w.cluster.Events.Take()
				if err := NewEvictor(w.cluster.Kube, w.books, w.reports).EvictTogether(all); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(tt.reviewed, asked.asked); diff != "" {
					t.Errorf("questions about permissions (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.gone, gone(t, w, "p0", "p1", "p2")); diff != "" {
					t.Errorf("evicted pods (-want +got):\n%s", diff)
				}
				if got := len(refusals(w)) > 0; got != tt.refused {
					t.Errorf("the gang is notified of a refusal: %t, want %t", got, tt.refused)
				}
			})
		})
	}
}

// TestADenialIsRemembered checks that the API server is asked once in ten minutes for each namespace where this scheduler may not create
// evictions.
func TestADenialIsRemembered(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		var denies reviews
		var evictions, reviewed []string
		w.cluster.Kube.PrependReactor("create", "selfsubjectaccessreviews", denies.react)
		w.cluster.Kube.PrependReactor("create", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
			eviction := action.(kubetesting.CreateActionImpl).Object.(*policyv1.Eviction)
			evictions = append(evictions, eviction.Namespace+"/"+eviction.Name)
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods/eviction"}, eviction.Name, errBroken)
		})
		e := NewEvictor(w.cluster.Kube, w.books, w.reports)
		for _, at := range []struct {
			namespace, name string
			later           time.Duration
		}{{"a", "first", 0}, {"a", "second", 0}, {"b", "first", 0}, {"a", "third", denialLasts}} {
			time.Sleep(at.later)
			victim := schedtest.MakePod().Namespace(at.namespace).Name(at.name).Group("g").Node("n").Phase(v1.PodRunning).Obj()
			w.add(victim)
			if err := e.EvictTogether([]Victim{{Task: api.NewTaskInfo(victim), Reason: "preempt", Protected: true}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if _, err := w.cluster.Kube.CoreV1().Pods(at.namespace).Get(t.Context(), at.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("pod %s/%s is not deleted (%v)", at.namespace, at.name, err)
			}
		}
		for _, attributes := range denies.asked {
			reviewed = append(reviewed, attributes.Namespace)
		}
		if diff := cmp.Diff([]string{"a", "b", "a"}, reviewed); diff != "" {
			t.Errorf("namespaces of questions about permissions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a/first", "b/first", "a/third"}, slices.Compact(evictions)); diff != "" {
			t.Errorf("evictions through the API (-want +got):\n%s", diff)
		}
	})
}
