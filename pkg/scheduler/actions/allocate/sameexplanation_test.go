// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestOneWorldHasOneExplanation checks that the messages of a gang, of its members and of members beyond its minimum
// are the same in each session while the cluster does not change. If several reasons exclude a node, upstream may
// report another one each time.
func TestOneWorldHasOneExplanation(t *testing.T) {
	database := metav1.LabelSelector{MatchLabels: map[string]string{"app": "database"}}
	spread := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &database}
	beside := func(app, key string) v1.Affinity {
		return v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: key},
		}}}
	}
	for name, tc := range map[string]struct {
		pod       *schedtest.PodBuilder
		spread    []v1.TopologySpreadConstraint
		surplus   bool
		unlabeled bool
		// want is a part of the message of the gang or of the waiting member.
		want string
	}{
		"a taint and a selector":                                {pod: schedtest.MakePod().NodeSelector("disk", "ssd"), want: "untolerated taint"},
		"a taint and a selector of a member beyond the minimum": {pod: schedtest.MakePod().NodeSelector("disk", "ssd"), surplus: true, want: "untolerated taint"},
		"a taint and a host port":                               {pod: schedtest.MakePod().HostPort(80), want: "untolerated taint"},
		"pod affinity that is nowhere and spread": {
			pod: schedtest.MakePod().Affinity(beside("nobody", v1.LabelHostname)), spread: []v1.TopologySpreadConstraint{spread}, want: "didn't match pod affinity rules",
		},
		"pod affinity that is nowhere and spread over a label that nodes lack": {
			pod: schedtest.MakePod().Affinity(beside("nobody", v1.LabelHostname)), spread: []v1.TopologySpreadConstraint{spread}, unlabeled: true,
			want: "didn't match pod affinity rules or pod topology spread constraints (missing required label)",
		},
		"a host port and spread": {
			pod: schedtest.MakePod().Label("app", "database").HostPort(80), spread: []v1.TopologySpreadConstraint{spread}, want: "free ports",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sessiontest.ClusterSpec{PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(map[bool]int32{false: 2, true: 1}[tc.surplus]).Obj()}}
			for i := range 6 {
				node := holds("8").Name(fmt.Sprintf("n%d", i))
				if !tc.unlabeled {
					node.Label(v1.LabelTopologyZone, fmt.Sprintf("z%d", i%2))
				}
				if i%2 == 0 {
					node.Taint("dedicated", v1.TaintEffectNoSchedule)
				} else {
					w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("database-%d", i)).Label("app", "database").Scheduler("other").
						HostPort(80).Node(fmt.Sprintf("n%d", i)).Phase(v1.PodRunning).Req(cores("1")).Obj())
				}
				w.Nodes = append(w.Nodes, node.Obj())
			}
			if tc.surplus {
				w.Pods = append(w.Pods, schedtest.MakePod().Name("g-first").Group("g").Req(cores("1")).Obj())
			}
			for _, pod := range each(tc.pod.Group("g").Req(cores("1")), "g-0", "g-1") {
				pod.Spec.TopologySpreadConstraints = tc.spread
				w.Pods = append(w.Pods, pod)
			}
			cluster := sessiontest.New(w)
			defer cluster.Close()
			texts := map[string]bool{}
			for range 30 {
				ssn := behaviour{}.open(cluster, ours)
				job := ssn.Jobs["ns/g"]
				reason, _ := ssn.PendingReason(job.UID)
				messages := []string{reason.Message, job.JobFitErrors}
				for _, uid := range slices.Sorted(maps.Keys(job.NodesFitErrors)) {
					messages = append(messages, job.NodesFitErrors[uid].Error())
				}
				ssn.Close()
				reason, _ = ssn.Session.PendingReason(job.UID)
				texts[strings.Join(append(messages, reason.Message), "\n")] = true
			}
			if len(texts) != 1 {
				t.Errorf("the unchanged cluster has messages in %d forms: %q", len(texts), slices.Collect(maps.Keys(texts)))
			}
			for text := range texts {
				if !strings.Contains(text, tc.want) {
					t.Errorf("the messages are %q, want %q in them", text, tc.want)
				}
			}
		})
	}
}
