// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"bytes"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestPlainPods checks that plain pods have the same class key whether or not their claims and volumes are read.
func TestPlainPods(t *testing.T) {
	volume := func(source v1.VolumeSource) v1.PodSpec {
		return v1.PodSpec{Volumes: []v1.Volume{{Name: "v", VolumeSource: source}}}
	}
	tests := map[string]struct {
		spec v1.PodSpec
		want bool
	}{
		"nothing":              {want: true},
		"an empty directory":   {spec: volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), want: true},
		"a claim of a volume":  {spec: volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})},
		"an ephemeral volume":  {spec: volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}})},
		"a disk":               {spec: volume(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}})},
		"a claim of a device":  {spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "d"}}}},
		"affinity":             {spec: v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{}}}},
		"spread over topology": {spec: v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{TopologyKey: "zone"}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			task := api.NewTaskInfo(&v1.Pod{Spec: tt.spec})
			m := NewFactCache()
			m.beginSession()
			facts := *m.factsOf(task)
			if facts.plain != tt.want {
				t.Errorf("the pod is plain: %t, want %t", facts.plain, tt.want)
			}
			labels := &selectorLabelKeys{read: framework.SomePodKeys()}
			key := appendClassKey(nil, task, labels, noKeys, &facts)
			facts.plain = false
			if whole := appendClassKey(nil, task, labels, noKeys, &facts); !bytes.Equal(key, whole) {
				t.Errorf("the class key is %q, and with its claims and volumes %q", key, whole)
			}
		})
	}
}

// TestAFactCacheDropsTasks checks that the cache drops tasks that were not requested during a whole session.
func TestAFactCacheDropsTasks(t *testing.T) {
	m := NewFactCache()
	kept, dropped := api.NewTaskInfo(&v1.Pod{}), api.NewTaskInfo(&v1.Pod{})
	m.beginSession()
	first, former := m.factsOf(kept), m.factsOf(dropped)
	m.beginSession()
	if m.factsOf(kept) != first || m.tasks[dropped] != former {
		t.Error("a task of the last session is not known in the next")
	}
	m.beginSession()
	if m.factsOf(kept) != first {
		t.Error("a task that each session requested was dropped")
	}
	if m.tasks[dropped] != nil || len(m.tasks) != 1 {
		t.Errorf("the cache has %d tasks, want the one that the last session requested", len(m.tasks))
	}
}

// TestClassKeysOfLongSpecs checks that class keys of long specs are short and still differ if only the last term
// differs.
func TestClassKeysOfLongSpecs(t *testing.T) {
	key := func(last string) []byte {
		terms := make([]v1.PodAffinityTerm, 100)
		for i := range terms {
			terms[i] = v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kind": fmt.Sprint(i)}}}
		}
		terms[99].TopologyKey = last
		pod := &v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}}
		return classKeyOf(api.NewTaskInfo(pod), &selectorLabelKeys{read: framework.SomePodKeys()}, noKeys)
	}
	first, again, other := key("host"), key("host"), key("rack")
	if len(first) > longestKey {
		t.Errorf("the class key has %d bytes, want at most %d", len(first), longestKey)
	}
	if !bytes.Equal(first, again) || bytes.Equal(first, other) {
		t.Errorf("equal pods have equal keys: %t, and pods that differ in a term: %t", bytes.Equal(first, again), bytes.Equal(first, other))
	}
}
