// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// asked is what a session asks of Keys.
type asked struct {
	labels    *selectorLabelKeys
	claims    claimKeys
	signature string
}

func readsLabel(keys ...string) *selectorLabelKeys {
	return &selectorLabelKeys{read: framework.SomePodKeys(keys...), selected: map[string]*mentionedValues{}}
}

// keysIn begins a session and returns the keys of the tasks in it.
func (a asked) keysIn(keys *Keys, tasks ...*api.TaskInfo) (found []string) {
	session := keys.begin(a.labels)
	for _, task := range tasks {
		kept := keys.pods[task.UID]
		if kept == nil {
			kept = &keptTask{}
			keys.pods[task.UID] = kept
		}
		key := keys.of(kept, task, a.labels, a.claims, a.signature)
		kept.session, key.session = session, session
		found = append(found, key.text)
	}
	return found
}

// made is the task's key when nothing is kept.
func (a asked) made(task *api.TaskInfo) string {
	return string(appendClassKey(nil, task, a.labels, a.claims)) + a.signature
}

// TestAKeptKeyEndsWithEachFieldThatItDependsOn changes each field of a task and its pod between two sessions. Of the pod everything else stays where it
// is, as in the copies of it that sessions get. The second session has to find the key that it would make.
func TestAKeptKeyEndsWithEachFieldThatItDependsOn(t *testing.T) {
	ask := asked{labels: readsLabel("x"), claims: noKeys}
	task := &api.TaskInfo{}
	taskFields.Fill(task)
	pod := *task.Pod
	pod.Spec.Volumes, pod.Spec.ResourceClaims = nil, nil // the keys of pods with claims are not kept
	first := *task
	first.Pod = &pod
	differing := 0
	taskFields.Each(task, func(path string, do, undo func()) {
		if path == ".Pod none" {
			return
		}
		keys := NewKeys(maphash.MakeSeed())
		before := ask.keysIn(keys, &first)[0]
		do()
		next, changed := *task, task.Pod.DeepCopy()
		undo()
		next.UID = first.UID
		next.Pod = withField(&pod, changed, path)
		want := ask.made(&next)
		if want != before {
			differing++
		}
		if got := ask.keysIn(keys, &next)[0]; got != want {
			t.Errorf("%s changed, and the key is still that of the session before", path)
		}
	})
	if differing < 100 {
		t.Errorf("only %d keys changed, it does not look right", differing)
	}
}

// withField returns a copy of the pod that has the field, in which the path is, from the other one.
func withField(pod, from *v1.Pod, path string) *v1.Pod {
	own := *pod
	for prefix, part := range map[string][2]any{
		".Pod.Spec.":       {&own.Spec, &from.Spec},
		".Pod.ObjectMeta.": {&own.ObjectMeta, &from.ObjectMeta},
	} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			name := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(".[ ", r) })[0]
			reflect.ValueOf(part[0]).Elem().FieldByName(name).Set(reflect.ValueOf(part[1]).Elem().FieldByName(name))
		}
	}
	return &own
}

// TestKeptKeys: what ends a kept key besides its task. To see whether it is kept, the pod's image is changed in place, which informers never do.
func TestKeptKeys(t *testing.T) {
	session := asked{labels: readsLabel("x"), claims: noKeys, signature: "c"}
	tests := map[string]struct {
		next   func(a *asked)
		volume *v1.Volume
		claim  bool
		kept   bool
	}{
		"nothing changes":                     {kept: true},
		"equal label keys":                    {next: func(a *asked) { a.labels = readsLabel("x") }, kept: true},
		"a volume that the kubelet makes":     {volume: &v1.Volume{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, kept: true},
		"a plugin reads another label":        {next: func(a *asked) { a.labels = readsLabel("x", "y") }},
		"a selector names another label":      {next: func(a *asked) { a.labels = readsLabel("x"); a.labels.addKeys([]string{"y"}) }},
		"verdicts are kept for another scope": {next: func(a *asked) { a.signature = "u" }},
		"a volume claim":                      {volume: &v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
		"a claim of devices":                  {claim: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := schedtest.MakePod().Name("p").Label("x", "1").Label("y", "1").Req(schedtest.Resources{"cpu": "1"}).Obj()
			if tt.volume != nil {
				pod.Spec.Volumes = append(pod.Spec.Volumes, *tt.volume)
			}
			if tt.claim {
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "c"})
			}
			task := api.NewTaskInfo(pod)
			keys := NewKeys(maphash.MakeSeed())
			before := session.keysIn(keys, task)[0]
			pod.Spec.Containers[0].Image = "changed"
			next := session
			if tt.next != nil {
				tt.next(&next)
			}
			own := *task
			copied := *pod
			own.Pod = &copied
			got, want := next.keysIn(keys, &own)[0], next.made(task)
			if tt.kept {
				want = before
			}
			if got != want {
				t.Errorf("kept: %t, want %t", got == before, tt.kept)
			}
		})
	}
}

// TestKeysAreDroppedWithTheirPods: Keys has the pods of the last session, and one key for those that are alike.
func TestKeysAreDroppedWithTheirPods(t *testing.T) {
	ask := asked{labels: readsLabel(), claims: noKeys}
	keys := NewKeys(maphash.MakeSeed())
	task := func(i int, cpu string) *api.TaskInfo {
		return api.NewTaskInfo(schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Req(schedtest.Resources{"cpu": cpu}).Obj())
	}
	for i := range 5 {
		ask.keysIn(keys, task(2*i, "1"), task(2*i+1, fmt.Sprint(i+2)))
	}
	if len(keys.pods) > 4 || len(keys.classes) > 4 {
		t.Errorf("Keys has %d pods and %d keys after five sessions of 2, want no more than those of two sessions", len(keys.pods), len(keys.classes))
	}
	if ask.keysIn(keys); len(keys.pods) > 2 {
		t.Errorf("Keys has %d pods after a session without any", len(keys.pods))
	}
	if ask.keysIn(keys); len(keys.pods) > 0 || len(keys.classes) > 0 {
		t.Errorf("Keys has %d pods and %d keys after two sessions without any", len(keys.pods), len(keys.classes))
	}
}
