// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// harness is a reporter on a cluster in memory.
type harness struct {
	reporter *Reporter
	t        *testing.T
	cluster  *schedtest.Cluster
	pods     cache.Indexer
	groups   cache.Indexer
	woken    int
}

// withHarness runs f with a harness and a gang g with one waiting pod p0, under a fake clock.
func withHarness(t *testing.T, f func(t *testing.T, w *harness)) {
	t.Helper()
	cluster := schedtest.NewCluster()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.reporter.Start(ctx)
		f(t, w)
		w.reporter.Status().Abort()
		cancel()
		w.reporter.Stop(ctx)
	})
}

func newWorld(t *testing.T, cluster *schedtest.Cluster) *harness {
	t.Helper()
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	w := &harness{t: t, cluster: cluster, pods: indexer(), groups: indexer()}
	w.reporter = New(Config{
		Kube: cluster.Kube, Volcano: cluster.Volcano, Books: books.New(books.Config{DefaultQueue: schedtest.Queue}),
		Pods: corelisters.NewPodLister(w.pods), PodGroups: vclisters.NewPodGroupLister(w.groups), Queues: vclisters.NewQueueLister(indexer()),
		Events: cluster.Events, OwnPod: (*v1.Pod).DeepCopy, StatusRejected: func(string) {},
		WakeSoon: func() { w.woken++ },
	})
	w.showGroup(schedtest.MakePodGroup().Name("g").MinMember(1).Obj())
	w.showPod(w.cluster.Put(schedtest.MakePod().Name("p0").Group("g").Obj()).(*v1.Pod))
	return w
}

func (w *harness) showPod(pod *v1.Pod) {
	w.t.Helper()
	if err := w.pods.Add(pod); err != nil {
		w.t.Fatal(err)
	}
	w.reporter.books.Pods.Show(pod)
}

func (w *harness) showGroup(group *v1beta1.PodGroup) {
	w.t.Helper()
	group = w.cluster.Put(group).(*v1beta1.PodGroup)
	if err := w.groups.Add(group); err != nil {
		w.t.Fatal(err)
	}
	if err := w.reporter.books.Jobs.ShowGroup(group); err != nil {
		w.t.Fatal(err)
	}
}

// settle waits until delayed conditions are written.
func (w *harness) settle() {
	time.Sleep(2 * statuswriter.Settle)
	synctest.Wait()
	w.showPod(w.cluster.Pod("p0"))
}

// TestANominationIsWrittenAlthoughTheVerdictIsNot checks that a nominated node is written even if the pod already has
// the condition that says why it waits.
func TestANominationIsWrittenAlthoughTheVerdictIsNot(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		for _, nominated := range []string{"", "n"} {
			w.reporter.outlet.pod(w.cluster.Pod("p0"), v1.PodReasonUnschedulable, "no room", nominated)
			w.settle()
		}
		if got := w.cluster.Pod("p0").Status.NominatedNodeName; got != "n" {
			t.Errorf("the pod is nominated to %q, want n", got)
		}
	})
}

// TestAGangThatNoSessionSeesIsReported checks that a gang that no session sees is reported once, after the time in
// which its queue may still be created.
func TestAGangThatNoSessionSeesIsReported(t *testing.T) {
	const why = "queue \"" + schedtest.Queue + "\" does not exist; create it, or correct "
	lacks := func(field string) []string {
		return []string{"Warning FailedScheduling p0: " + why + field, "Warning Unschedulable g: " + why + field}
	}
	tests := map[string]struct {
		seen int
		// source is where the gang controller has read the gang; empty for a PodGroup of Volcano.
		source string
		want   []string
	}{
		"the session sees it":      {seen: 1},
		"its queue does not exist": {want: lacks("spec.queue")},
		"its queue does not exist, which its pods name": {
			source: "annotations", want: lacks("the annotation scheduling.volcano.sh/queue-name"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.reporter.books.Lock()
				metav1.SetMetaDataAnnotation(&w.reporter.books.Jobs.Get("ns/g").PodGroup.ObjectMeta, gangs.SourceAnnotation, tt.source)
				w.reporter.books.Unlock()
				w.reporter.Unseen(tt.seen, nil, nil)
				if got := w.cluster.Events.Take(); len(got) > 0 {
					t.Errorf("reported before its queue may have come: %q", got)
				}
				if young := len(tt.want) > 0; w.woken > 0 != young {
					t.Errorf("another session is requested: %v, want %v", w.woken > 0, young)
				}
				w.settle()
				w.reporter.Unseen(tt.seen, nil, nil)
				w.reporter.Unseen(tt.seen, nil, nil)
				if diff := cmp.Diff(tt.want, slices.Sorted(slices.Values(w.cluster.Events.Take()))); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// leftOut creates the gang's queue, and reports that sessions leave the gang out because of these verdicts.
func (w *harness) leftOut(gangs map[api.JobID]quarantine.Verdict, queues map[api.QueueID]quarantine.Verdict) {
	w.reporter.books.Lock()
	w.reporter.books.Tables.ShowQueue(&scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: schedtest.Queue}})
	w.reporter.books.Unlock()
	w.reporter.Unseen(0, gangs, queues)
	w.settle()
	w.reporter.Unseen(0, gangs, queues)
	synctest.Wait()
}

// TestTheConditionOfAQuarantinedGangIsWrittenAgain checks that the condition of a gang that sessions leave out is
// written again if it was lost.
func TestTheConditionOfAQuarantinedGangIsWrittenAgain(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		verdicts := map[api.JobID]quarantine.Verdict{"ns/g": {Reason: quarantine.ObjectTooLarge, Message: "too large"}}
		w.leftOut(verdicts, nil)
		conditions := w.cluster.PodGroup("g").Status.Conditions
		if len(conditions) != 1 || conditions[0].Reason != quarantine.ObjectTooLarge {
			t.Errorf("the conditions are %v, want the verdict", conditions)
		}
	})
}

// TestAGangOfAQuarantinedQueueIsReported checks that a gang that sessions leave out because its queue is quarantined
// has the condition that says so.
func TestAGangOfAQuarantinedQueueIsReported(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		verdicts := map[api.QueueID]quarantine.Verdict{schedtest.Queue: {Reason: quarantine.SchedulerPanic, Message: "a plugin panics"}}
		w.leftOut(nil, verdicts)
		const why = `queue "` + schedtest.Queue + `" is in quarantine: a plugin panics`
		want := []string{"Warning FailedScheduling p0: " + why, "Warning Unschedulable g: " + why}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(w.cluster.Events.Take()))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		var got []string
		for _, c := range w.cluster.PodGroup("g").Status.Conditions {
			got = append(got, string(c.Type)+" "+c.Reason+": "+c.Message)
		}
		if diff := cmp.Diff([]string{"Unschedulable SchedulerPanic: " + why}, got); diff != "" {
			t.Errorf("conditions of the PodGroup (-want +got):\n%s", diff)
		}
	})
}

// TestARepeatedFailureIsReportedOnceAndHasItsOwnNodes checks that a failure with the same cause as the last one is not
// reported again. The returned Failure still has the node of the new failure.
func TestARepeatedFailureIsReportedOnceAndHasItsOwnNodes(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		fail := func(node string) Failure {
			w.reporter.books.Lock()
			task := w.reporter.books.Jobs.Get("ns/g").Tasks["ns-p0"].Clone()
			w.reporter.books.Unlock()
			failed := []binding.Failure{{Member: binding.NewMember(task, node, nil), Err: errors.New("it is broken")}}
			failure := w.reporter.Failed("ns/g", binding.Result{Gang: "ns/g", Failed: failed}, failed)
			w.reporter.Publish(failure)
			return failure
		}
		for _, node := range []string{"n", "m"} {
			if diff := cmp.Diff([]string{node}, fail(node).Nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		}
		want := []string{"Warning PreBindFailed g: it is broken", "Warning PreBindFailed p0: it is broken"}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(w.cluster.Events.Take()))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		w.reporter.Forget("ns", "g")
		if left := w.reporter.Remembered(); left != 0 || w.reporter.HasFailed("ns/g") {
			t.Errorf("%d things are remembered of a gang that was deleted", left)
		}
	})
}
