// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestPodsOfPendingTasksAreCopiedOnce checks when a session gets the copy of a pod that the last session had.
func TestPodsOfPendingTasksAreCopiedOnce(t *testing.T) {
	source := func() *v1.Pod {
		pod := &v1.Pod{}
		pod.Annotations = map[string]string{"key": "value"}
		return pod
	}
	watched := source()
	for name, tt := range map[string]struct {
		session   func(own *v1.Pod)
		next      *v1.Pod
		untrusted bool
		between   int // sessions without the task
		want      bool
	}{
		"nothing changed":                      {want: true},
		"the session placed the task":          {session: func(own *v1.Pod) { own.Spec.NodeName = "n" }},
		"the session undid the placement":      {session: func(own *v1.Pod) { own.Spec.NodeName = "n"; own.Spec.NodeName = "" }, want: true},
		"the session nominated a node":         {session: func(own *v1.Pod) { own.Status.NominatedNodeName = "n" }},
		"a plugin changed an annotation":       {session: func(own *v1.Pod) { own.Annotations["key"] = "another" }},
		"a plugin added an annotation":         {session: func(own *v1.Pod) { own.Annotations["new"] = "" }},
		"the watch shows another version":      {next: source()},
		"the session may write to other parts": {untrusted: true},
		"a session did not have the task":      {between: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCopies()
			c.pods.begin(true)
			first := c.OwnPodOf(&api.TaskInfo{UID: "uid", Pod: watched})
			if tt.session != nil {
				tt.session(first)
			}
			for range tt.between {
				c.pods.begin(true)
			}
			c.pods.begin(!tt.untrusted)
			if tt.next == nil {
				tt.next = watched
			}
			second := c.OwnPodOf(&api.TaskInfo{UID: "uid", Pod: tt.next})
			if got := second == first; got != tt.want {
				t.Errorf("the next session gets the same copy: %t, want %t", got, tt.want)
			}
			if second == tt.next || second.Spec.NodeName != "" || second.Status.NominatedNodeName != "" || len(second.Annotations) != 1 || second.Annotations["key"] != "value" {
				t.Errorf("the copy is %+v, want one of the pod that the watch shows", second)
			}
			if watched.Annotations["key"] != "value" || len(watched.Annotations) != 1 || watched.Spec.NodeName != "" {
				t.Errorf("the session has changed the watched pod: %+v", watched)
			}
		})
	}
}
