// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// late is an API server that answers updates of a claim's status only when answer is closed or receives a value. If the
// caller's context ends first, the caller gets an error, and the test may apply the write later.
type late struct {
	kubernetes.Interface
	resourceclient.ResourceV1Interface
	resourceclient.ResourceClaimInterface
	answer chan struct{}
	// rest are the writes whose callers got an error, and which the test may apply later.
	rest []func() error
}

func (l *late) ResourceV1() resourceclient.ResourceV1Interface { return l }

func (l *late) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	l.ResourceClaimInterface = l.Interface.ResourceV1().ResourceClaims(namespace)
	return l
}

func (l *late) UpdateStatus(ctx context.Context, claim *resourceapi.ResourceClaim, options metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	write := func() (*resourceapi.ResourceClaim, error) {
		return l.ResourceClaimInterface.UpdateStatus(context.Background(), claim, options)
	}
	select {
	case <-l.answer:
		return write()
	case <-ctx.Done():
		l.rest = append(l.rest, func() error {
			_, err := write()
			return err
		})
		return nil, ctx.Err()
	}
}

// TestAStepThatIsCancelledBeforeItWrites checks that a step whose context has ended writes nothing.
func TestAStepThatIsCancelledBeforeItWrites(t *testing.T) {
	alone(t, func(w *testCluster) {
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		if err := w.plugin.PreBind(ctx, w.tasks["p"], "n"); err == nil {
			t.Error("the step succeeded, want an error")
		}
		w.untouched("p-t")
		if err := w.plugin.PreBind(w.t.Context(), w.tasks["p"], "m"); !errors.Is(err, errReserved) {
			t.Errorf("the step on another node returned %v", err)
		}
	})
}

// TestAClaimThatIsProtectedOrMarkedAlready checks that the step adds the finalizer and the annotation of the scheduler
// if either is missing.
func TestAClaimThatIsProtectedOrMarkedAlready(t *testing.T) {
	p := member("p", "made t")
	for name, mutate := range map[string]func(*resourceapi.ResourceClaim){
		"protected": func(c *resourceapi.ResourceClaim) { c.Finalizers = []string{resourceapi.Finalizer} },
		"marked": func(c *resourceapi.ResourceClaim) {
			c.Annotations = map[string]string{SchedulerAnnotation: p.Pod.Spec.SchedulerName}
		},
		"marked by another": func(c *resourceapi.ResourceClaim) { c.Annotations = map[string]string{SchedulerAnnotation: "another"} },
	} {
		t.Run(name, func(t *testing.T) {
			claim := made(p, "t", one())
			mutate(claim)
			run(t, append(gpus("n"), claim), func(w *testCluster) {
				w.mustPlace(p, "n")
				w.mustPreBind(p)
				live := w.claim("p-t")
				if diff := cmp.Diff([]string{resourceapi.Finalizer}, live.Finalizers); diff != "" || live.Annotations[SchedulerAnnotation] != p.Pod.Spec.SchedulerName {
					t.Errorf("annotations %v, finalizers (-want +got):\n%s", live.Annotations, diff)
				}
			})
		})
	}
}

// TestAStepThatIsCancelledWhileItWrites checks that the step waits for the answer to its write, so that the rollback
// knows what to withdraw.
func TestAStepThatIsCancelledWhileItWrites(t *testing.T) {
	claim := schedtest.DeviceClaim("c", one())
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	p := member("p", "c")
	run(t, append(gpus("n"), claim), func(w *testCluster) {
		w.mustPlace(p, "n")
		server := &late{Interface: w.kube, answer: make(chan struct{})}
		w.plugin.devices.kube = server
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan error, 1)
		go func() { done <- w.plugin.PreBind(ctx, p, "n") }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(server.answer)
		<-done
		w.rollBack(p)
		for _, write := range server.rest {
			_ = write()
		}
		if users := w.users("c"); len(users) > 0 {
			t.Errorf("the claim is reserved for %v, but no pod is bound", users)
		}
	})
}
