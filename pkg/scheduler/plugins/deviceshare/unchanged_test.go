// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// crowded returns a cluster whose nodes have partly used GPUs, to different amounts, and pending gangs. Each gang has
// its own task class, and its members request more than any GPU has free. shapes is the number of gangs.
func crowded(t *testing.T, nodes, shapes int) *testCluster {
	t.Helper()
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	w := sessiontest.ClusterSpec{}
	w.Nodes, w.Devices = machines(names...)
	for i, name := range names {
		used := fmt.Sprint(30 + i%41)
		for gpu := range 8 {
			pod := runningWith(fmt.Sprintf("on-%s-%d", name, gpu), name, used, gpu)
			pod.Spec.Containers[0].Resources.Limits["koordinator.sh/gpu"] = resource.MustParse(used)
			pod.Spec.Containers[0].Resources.Requests["koordinator.sh/gpu"] = resource.MustParse(used)
			w.Pods = append(w.Pods, pod)
		}
	}
	for i := range shapes {
		podGroup, pods := gang(fmt.Sprintf("g%02d", i), 2, schedtest.Resources{"koordinator.sh/gpu": fmt.Sprint(71 + i%29), "cpu": fmt.Sprint(1 + i/29)})
		w.PodGroups, w.Pods = append(w.PodGroups, podGroup), append(w.Pods, pods...)
	}
	return newTestCluster(t, w)
}

// work runs a session. It returns the pods' messages, and the number of memory allocations of the action.
func (w *testCluster) work(t *testing.T) (said map[string]string, allocations uint64) {
	t.Helper()
	ssn := w.next(t)
	defer ssn.Close()
	action, _ := vcframework.GetAction("allocate")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ssn.Run(action)
	runtime.ReadMemStats(&after)
	said = map[string]string{}
	for _, job := range ssn.Jobs {
		for uid, task := range job.Tasks {
			said[task.Name] = job.JobFitErrors
			if errs := job.NodesFitErrors[uid]; errs != nil {
				said[task.Name] += errs.Error()
			}
		}
	}
	return said, after.Mallocs - before.Mallocs
}

// TestAnUnchangedClusterIsNotSearchedAgain checks that pending gangs of many task classes get the same messages in the
// next session, without a check of each node for each gang.
func TestAnUnchangedClusterIsNotSearchedAgain(t *testing.T) {
	w := crowded(t, 60, 24)
	first, searched := w.work(t)
	second, kept := w.work(t)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("messages in the second session (-first +second):\n%s", diff)
	}
	t.Logf("allocations: %d in the first session, %d in the second", searched, kept)
	if kept*8 > searched {
		t.Errorf("the second session made %d allocations and the first %d, want at most an eighth of them", kept, searched)
	}
}
