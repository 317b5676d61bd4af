// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// TestArgumentsOfReservations checks the values of the arguments for reservations, and the errors of values outside of
// the permitted range.
func TestArgumentsOfReservations(t *testing.T) {
	defaults := reservationTerms{drain: 30 * time.Minute, percent: 10}
	for name, tt := range map[string]struct {
		args framework.Arguments
		want reservationTerms
		err  string
	}{
		"none":                {nil, defaults, ""},
		"all":                 {framework.Arguments{argStarves: "5m", argDrain: "0s", argPercent: 100}, reservationTerms{5 * time.Minute, 0, 100}, ""},
		"one percent":         {framework.Arguments{argPercent: 1}, reservationTerms{drain: 30 * time.Minute, percent: 1}, ""},
		"none of the cluster": {framework.Arguments{argPercent: 0}, reservationTerms{}, "reservedPercent: found 0, want a percentage from 1 to 100"},
		"more than all":       {framework.Arguments{argPercent: 101}, reservationTerms{}, "reservedPercent: found 101, want a percentage from 1 to 100"},
		"a negative wait":     {framework.Arguments{argStarves: "-1s"}, reservationTerms{}, `starvationAfter: found "-1s", want a duration such as 30m`},
		"no duration":         {framework.Arguments{argDrain: "1y"}, reservationTerms{}, `drainTimeout: found "1y", want a duration such as 30m`},
	} {
		got, err := loadReservations(tt.args)
		if tt.err != "" {
			for _, err := range []error{err, errOf(Spec().New(tt.args, nil))} {
				if err == nil || err.Error() != tt.err {
					t.Errorf("%s: %v, want %s", name, err, tt.err)
				}
			}
			continue
		}
		if _, loadErr := Spec().Load(tt.args); err != nil || got != tt.want || loadErr != nil {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tt.want)
		}
	}
	if err := errOf(Spec().New(framework.Arguments{argTimeout: "0s"}, nil)); err == nil {
		t.Error("the plugin accepts a waiting time of 0")
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	made, err := Spec().New(nil, cluster.Handle())
	if err != nil {
		t.Fatal(err)
	}
	made.(*plugin).Close() // without an open session
}

func errOf(_ framework.Plugin, err error) error { return err }

// TestDefaultsOfGangs checks that arguments replace the defaults of gangs without annotations.
func TestDefaultsOfGangs(t *testing.T) {
	got, err := loadDefaults(framework.Arguments{argTimeout: "90s", argPolicy: string(gangs.OnlyWaiting)})
	want := gangs.Settings{Mode: gangs.NonStrict, MatchPolicy: gangs.OnlyWaiting, WaitingTime: 90 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("defaults (-want +got):\n%s%v", diff, err)
	}
}

// TestSettingsAreReadOnce checks that settings are parsed once for each version of a PodGroup, and each time for a
// PodGroup without a version.
func TestSettingsAreReadOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		uid     types.UID
		version string
		known   *reading
		cached  bool
	}{
		"the same":             {"u", "1", &reading{uid: "u", version: "1", id: "known"}, true},
		"another version":      {"u", "2", &reading{uid: "u", version: "1", id: "known"}, false},
		"another of the name":  {"v", "1", &reading{uid: "u", version: "1", id: "known"}, false},
		"without a version":    {"u", "", &reading{uid: "u", id: "known"}, false},
		"for the first time":   {"u", "1", nil, false},
		"without UID and that": {"", "", nil, false},
	} {
		p := &plugin{known: map[api.JobID]reading{}}
		job := api.NewJobInfo("ns/g")
		job.Namespace, job.Name, job.PodGroup = "ns", "g", &api.PodGroup{}
		job.PodGroup.UID, job.PodGroup.ResourceVersion = tt.uid, tt.version
		if tt.known != nil {
			p.known[job.UID] = *tt.known
		}
		if read := p.read(job); (read.id == "known") != tt.cached || !tt.cached && (read.id != "ns/g" || read.uid != tt.uid || read.version != tt.version) {
			t.Errorf("%s: the reading is %v, want the cached one: %t", name, read, tt.cached)
		}
	}
}

// TestPartsOfDomains checks that within returns the parts of domains that have nodes of the node group.
func TestPartsOfDomains(t *testing.T) {
	group := &topology.Group{Name: "g", Parent: &topology.Group{Name: "p"}, Nodes: []string{"a", "b", "c"}}
	got := within(group, []place{{"x", []string{"b", "d", "a"}}, {"y", []string{"d"}}, {"z", []string{"c"}}})
	var texts []string
	for _, p := range got {
		texts = append(texts, p.name+": "+strings.Join(p.nodes, " "))
	}
	if diff := cmp.Diff([]string{"p/g, x: b a", "p/g, z: c"}, texts); diff != "" {
		t.Errorf("node lists (-want +got):\n%s", diff)
	}
}
