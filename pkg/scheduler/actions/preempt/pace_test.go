// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestASearchThatIsGivenUpPauses checks a gang for which every second of many pods has to go, because of anti-affinity. The search
// is given up, and not repeated in the next session.
func TestASearchThatIsGivenUpPauses(t *testing.T) {
	const nodes = 140
	gangs := []gang{{name: "new", min: nodes, priority: 9, cpu: "3", pending: nodes, pod: func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"apart": "yes"}},
		}}}})
	}}}
	for i := range nodes {
		g := gang{name: fmt.Sprint("old-", i), min: 0, priority: 1, cpu: "1", on: []string{fmt.Sprint("n", i)}}
		if i%2 == 0 {
			g.pod = func(p *schedtest.PodBuilder) { p.Label("apart", "yes") }
		}
		gangs = append(gangs, g)
	}
	c := newLiveCluster(world(nodesOf(nodes, "4"), gangs...), simpleTiers)
	defer c.close()
	for session, searches := range []bool{true, false, true, false, false, true} {
		got := c.session()
		if looks := c.action.memory.pace.looks; (looks > maxLooks) != searches || looks > 3*maxLooks/2 {
			t.Errorf("session %d: %d looks, want more than %d, but not many more: %t", session, looks, maxLooks, searches)
		}
		if len(got.evicted) > 0 || !strings.HasSuffix(got.reasons["new"], givenUp) {
			t.Errorf("session %d: evicted %v, reason %q, want none and that the search was given up", session, got.evicted, got.reasons["new"])
		}
	}
}

// TestSearchesTakeTurns checks which of four gangs have their search in each session, in their order. A session ends after two
// searches. The search for gang a always succeeds.
func TestSearchesTakeTurns(t *testing.T) {
	jobs := map[api.JobID]*api.JobInfo{"a": {}, "b": {}, "c": {}, "d": {}}
	var p pace
	var got [][]string
	for range 6 {
		p.begin(jobs)
		var searched []string
		for _, job := range []api.JobID{"a", "b", "c", "d"} {
			if p.refuse(job) == "" {
				searched = append(searched, string(job))
				p.looks += maxSessionLooks/2 + 1
				p.note(job, job == "a", false)
			}
		}
		got = append(got, searched)
	}
	want := [][]string{{"a", "b"}, {"c", "d"}, {"a", "b"}, {"c", "d"}, {"a", "b"}, {"c", "d"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("searches by session (-want +got):\n%s", diff)
	}
}

// TestNewGangsDoNotKeepOthersFromTheirSearch checks a gang of low priority, and one whose search fails each time, while gangs with
// expensive searches come in each session and go.
func TestNewGangsDoNotKeepOthersFromTheirSearch(t *testing.T) {
	searches := map[api.JobID]int{}
	var p pace
	for session := range 100 {
		order := []api.JobID{"fails"}
		for i := range 4 {
			order = append(order, api.JobID(fmt.Sprint("new-", session, "-", i)))
		}
		order = append(order, "low")
		jobs := map[api.JobID]*api.JobInfo{}
		for _, job := range order {
			jobs[job] = &api.JobInfo{}
		}
		p.begin(jobs)
		for _, job := range order {
			if p.refuse(job) == "" {
				searches[job]++
				p.looks += maxSessionLooks + 1
				p.note(job, false, false)
			}
		}
	}
	if searches["fails"] < 25 || searches["low"] < 25 {
		t.Errorf("%d searches for the gang whose search fails and %d for that of low priority in 100 sessions, want at least 25 each", searches["fails"], searches["low"])
	}
	if p.begin(nil); len(p.had)+len(p.owed)+len(p.next) > 0 {
		t.Errorf("gangs that no longer exist are remembered: %v %v %v", p.had, p.owed, p.next)
	}
}

// TestPausesOfSearches checks how long the pauses of a gang are whose search is given up each time, and that they end with the gang.
func TestPausesOfSearches(t *testing.T) {
	jobs := map[api.JobID]*api.JobInfo{"a": {}}
	var p pace
	var got []int
	last := 0
	for session := range 400 {
		p.begin(jobs)
		if p.refuse("a") == "" {
			got, last = append(got, session-last), session
			p.note("a", false, true)
		}
	}
	if diff := cmp.Diff([]int{0, 2, 3, 5, 9, 17, 33, 65, 65, 65, 65, 65}, got); diff != "" {
		t.Errorf("sessions from search to search (-want +got):\n%s", diff)
	}
	if p.begin(nil); len(p.pauses) > 0 {
		t.Errorf("pauses of deleted gangs are kept: %v", p.pauses)
	}
}
