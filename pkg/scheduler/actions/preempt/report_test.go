// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestWhosePodsAreEvicted checks how an event names the gangs of evicted pods.
func TestWhosePodsAreEvicted(t *testing.T) {
	jobs := map[api.JobID]*api.JobInfo{}
	add := func(namespace, name string) {
		id := api.JobID(namespace + "/" + name)
		jobs[id] = &api.JobInfo{UID: id, Namespace: namespace, Name: name, Priority: 3}
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		add("ns", name)
		add("other", name)
	}
	for name, tt := range map[string]struct {
		pods []api.JobID
		want string
	}{
		"one gang":                {[]api.JobID{"ns/a", "ns/a"}, "2 of gang a (priority 3)"},
		"the most pods first":     {[]api.JobID{"ns/a", "ns/b", "ns/b"}, "2 of gang b (priority 3), 1 of gang a (priority 3)"},
		"gangs of other tenants":  {[]api.JobID{"ns/a", "other/a", "other/b"}, "2 of other namespaces, 1 of gang a (priority 3)"},
		"as many as are listed":   {[]api.JobID{"ns/a", "ns/b", "ns/c", "ns/d"}, "1 of gang a (priority 3), 1 of gang b (priority 3), 1 of gang c (priority 3), 1 of gang d (priority 3)"},
		"more gangs than listed":  {[]api.JobID{"ns/a", "ns/b", "ns/c", "ns/d", "ns/e"}, "1 of gang a (priority 3), 1 of gang b (priority 3), 1 of gang c (priority 3), 1 of gang d (priority 3), and pods of 1 more gang"},
		"many more than are told": {[]api.JobID{"ns/a", "ns/b", "ns/c", "ns/d", "ns/e", "ns/f"}, "1 of gang a (priority 3), 1 of gang b (priority 3), 1 of gang c (priority 3), 1 of gang d (priority 3), and pods of 2 more gangs"},
	} {
		var evictions []framework.Eviction
		for i, job := range tt.pods {
			evictions = append(evictions, framework.Eviction{Task: &api.TaskInfo{UID: api.TaskID(fmt.Sprint(i)), Job: job}})
		}
		trial := &trial{of: &preemption{ssn: &framework.Session{Session: &vcframework.Session{Jobs: jobs}}}, planner: &planner{attempt: &state.Attempt{Job: jobs["ns/f"]}}}
		if got := trial.whose(evictions); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
