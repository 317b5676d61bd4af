// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAnAdmittedGangThatNeverFits checks that an admitted gang that fits no cluster is infeasible, so that no resources
// are kept for it, and that allocate gives the same reason.
func TestAnAdmittedGangThatNeverFits(t *testing.T) {
	three := func(cpu string) []*v1.Pod { return sized(cpu, "g0/0", "g0/1", "g0/2") }
	tests := map[string]struct {
		wishes []string
		pods   []*v1.Pod
		// conf is a text of the configuration and its replacement.
		conf [2]string
		// held is the time since a cluster could last hold the gang; 0 means that no cluster ever could.
		held time.Duration
		kept bool
	}{
		"members of which each node takes one": {pods: three("2500m")},
		"members that a cluster holds":         {pods: three("2"), kept: true},
		"no pods that ask for it yet":          {kept: true},
		"too few pods yet":                     {pods: sized("3750m", "g0/0", "g0/1"), kept: true},
		"a member runs":                        {pods: slices.Concat(three("2500m"), members("g0/9@x")), kept: true},
		"it need not lie in one cluster":       {wishes: []string{"mode=preferred"}, pods: three("2500m"), kept: true},
		"no plugin waits for its minimum":      {pods: three("2500m"), conf: [2]string{"- name: gang\n", "- name: gang\n    enableJobReady: false\n"}, kept: true},
		"the vote is switched off":             {pods: three("2500m"), conf: [2]string{"- name: ibcluster\n", "- name: ibcluster\n    enableJobEnqueued: false\n"}, kept: true},
		"a node is away for a moment":          {pods: three("2500m"), held: outage - time.Minute, kept: true},
		"a node is away for good":              {pods: three("2500m"), held: outage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g0 := gang("g0", 3, append([]string{"mode=required"}, tt.wishes...)...).MinResources(schedtest.Resources{"cpu": "7500m"})
			w := sessiontest.ClusterSpec{Nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "x")}
			// Gang on-x does not need one cluster.
			onX := gang("on-x", 1).MinResources(schedtest.Resources{"cpu": "2500m"})
			w.PodGroups = []*v1beta1.PodGroup{g0.Phase(v1beta1.PodGroupPending).Obj(), onX.Phase(v1beta1.PodGroupPending).Obj()}
			f := open(t, w)
			f.conf = strings.Replace(f.conf, tt.conf[0], tt.conf[1], 1)
			f.reopen(t, nil)
			f.session.Run(enqueue.New())
			if phase := f.job("g0").PodGroup.Status.Phase; phase != scheduling.PodGroupInqueue {
				t.Fatalf("the gang is %s before it has pods", phase)
			}
			w.PodGroups = []*v1beta1.PodGroup{g0.Phase(v1beta1.PodGroupInqueue).Obj(), onX.Phase(v1beta1.PodGroupInqueue).Obj()}
			if w.Pods = tt.pods; tt.held > 0 {
				f.plugin.memory.holdable["ns/g0"] = time.Now().Add(-tt.held)
			}
			f.Load(w)
			for range 2 { // two sessions without a change
				f.reopen(t, nil)
				if got := f.session.Infeasible(f.job("g0")); got == tt.kept {
					t.Errorf("the gang is infeasible: %v", got)
				}
				groups := strings.Join(f.groups("g0"), "")
				if refused := strings.Contains(groups, "none of 2 node groups fits the 3 pods needed"); refused == tt.kept && tt.pods != nil {
					t.Errorf("the node groups for allocate are %q", groups)
				}
			}
		})
	}
}

// TestAGangThatCouldBeHeldStaysFeasibleAfterAReload checks that a gang stays feasible for a while if a node is away when
// the configuration is reloaded.
func TestAGangThatCouldBeHeldStaysFeasibleAfterAReload(t *testing.T) {
	g := gang("g", 2, "mode=required").MinResources(schedtest.Resources{"cpu": "7"}).Phase(v1beta1.PodGroupInqueue).Obj()
	spec := sessiontest.ClusterSpec{Nodes: nodes("a1 ib-a", "a2 ib-a", "x"), PodGroups: []*v1beta1.PodGroup{g}, Pods: sized("3500m", "g/0", "g/1")}
	f := open(t, spec)
	if f.session.Infeasible(f.job("g")) {
		t.Fatal("the gang is infeasible, although a cluster can hold it")
	}
	spec.Nodes = nodes("a1 ib-a", "x")
	f.reload(t, &spec)
	if f.session.Infeasible(f.job("g")) {
		t.Error("the gang is infeasible after a reload, although a cluster could hold it a moment ago")
	}
}

// TestPromisesAreForgottenWithTheirGangs checks that no state remains of deleted gangs.
func TestPromisesAreForgottenWithTheirGangs(t *testing.T) {
	g := gang("g", 2, "mode=required").MinResources(schedtest.Resources{"cpu": "2"}).Phase(v1beta1.PodGroupInqueue).Obj()
	f := open(t, sessiontest.ClusterSpec{Nodes: two(), PodGroups: []*v1beta1.PodGroup{g}, Pods: sized("1", "g/0", "g/1")})
	if f.session.Infeasible(f.job("g")) || len(f.plugin.memory.holdable) != 1 {
		t.Errorf("a cluster can hold the gang, but the recorded gangs are %v", f.plugin.memory.holdable)
	}
	f.reopen(t, &sessiontest.ClusterSpec{Nodes: two()})
	f.session.Close()
	if len(f.plugin.memory.holdable) != 0 {
		t.Errorf("the gang was deleted, but the recorded gangs are %v", f.plugin.memory.holdable)
	}
}
