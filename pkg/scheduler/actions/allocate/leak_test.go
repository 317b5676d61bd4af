// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// TestNothingLeaksOutOfADroppedTrial checks that a gang that fits nowhere is tried in every way, and that the session
// is unchanged afterwards.
func TestNothingLeaksOutOfADroppedTrial(t *testing.T) {
	member := func() *schedtest.PodBuilder { return schedtest.MakePod().Group("g").Req(cores("2")) }
	names := []string{"g-0", "g-1", "g-2"}
	old := []*v1.Pod{schedtest.MakePod().Group("old").Req(cores("1")).Phase(v1.PodRunning).Node("a1").Name("old-0").Obj()}
	going := []*v1.Pod{schedtest.MakePod().Group("old").Req(cores("2")).Phase(v1.PodRunning).Node("a1").Terminating().Name("old-0").Obj()}
	world := func(group *schedtest.PodGroupBuilder, pods ...[]*v1.Pod) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes:      slices.Concat(nodes(holds("2"), "a1", "a2"), nodes(holds("3"), "b1", "b2")), // The members request more in total than fits.
			HyperNodes: oneRow,
			PodGroups: []*v1beta1.PodGroup{
				group.Name("g").Obj(), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj(), schedtest.MakePodGroup().Name("z").Queue("q").Obj(),
			},
			Queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Obj()},
			Pods:   slices.Concat(append(pods, each(schedtest.MakePod().Group("z").Req(cores("9")), "z-0"))...),
		}
	}
	gang := func(minMember int32) *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().MinMember(minMember) }
	apart := v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}},
	}}}}
	claims := func(n int) []runtime.Object {
		objects := []runtime.Object{schedtest.LateClass("late", noProvisioner)}
		for _, name := range names[:n] {
			objects = append(objects, schedtest.UnboundClaim(name, "late"), schedtest.FreeVolume(name, "late"))
		}
		return objects
	}
	withObjects := func(w sessiontest.ClusterSpec, objects []runtime.Object) sessiontest.ClusterSpec {
		w.Objects = objects
		return w
	}
	everything := "\n- plugins:\n  - name: network-topology-aware\n  - name: racks\n"

	cases := map[string]struct {
		world sessiontest.ClusterSpec
		// racks are the node groups of racks that may hold the gang. Nil means that any node may.
		racks *framework.NodeGroups
	}{
		"plain":                {world: world(gang(5), each(member(), "g-0", "g-1", "g-2", "g-3", "g-4"))},
		"two roles":            {world: world(gang(5), each(member().Role("a"), "g-0", "g-1"), each(member().Role("b"), "g-2", "g-3", "g-4"))},
		"of different sizes":   {world: world(gang(7), each(member(), "g-0", "g-1", "g-2", "g-3"), each(member().Req(cores("1")), "g-4", "g-5", "g-6"))},
		"beside pods that run": {world: world(gang(4), each(member(), "g-0", "g-1", "g-2", "g-3"), old)},
		"when even room becoming free is too small": {world: world(gang(5), each(member(), "g-0", "g-1", "g-2", "g-3", "g-4"), going)},
		"soft topology": {world: world(gang(5).Topology(soft, 1), each(member(), "g-0", "g-1", "g-2", "g-3", "g-4"))},
		"hard topology": {world: world(gang(3).Topology(hard, 1), each(member(), names...))},
		"hard topology with a member that runs": {world: world(gang(3).Topology(hard, 1),
			each(member(), "g-1", "g-2"), each(member().Phase(v1.PodRunning).Node("a1"), "g-0"))},
		"sub-groups": {world: world(gang(5).Topology(hard, 2).SubGroups("pairs", "pair", 2, 2).SubGroupTopology(hard, 1).SubGroups("one", "one", 1, 1),
			each(member().Label("pair", "0"), "g-0", "g-1"), each(member().Label("pair", "1"), "g-2", "g-3"), each(member().Label("one", "0"), "g-4"))},
		"a sub-group that is placed in parts": {world: world(gang(3).Topology(hard, 2).SubGroups("cell", "cell", 1, 1).SubGroupTopology(hard, 1),
			each(member().Label("cell", "0"), "g-0", "g-1"), each(member().Label("cell", "1").Req(cores("9")), "g-2"))},
		"nominated pods": {world: world(gang(3).Topology(hard, 1), each(member().Nominated("b1"), names...))},
		"host ports":     {world: world(gang(5), each(member().Req(cores("1")).HostPort(80), "g-0", "g-1", "g-2", "g-3", "g-4"))},
		"anti-affinity": {world: world(gang(5),
			each(member().Req(cores("1")).Label("app", "g").Affinity(apart), "g-0", "g-1", "g-2", "g-3", "g-4"))},
		"required node groups": {
			world: world(gang(3), each(member(), names...)), racks: rackGroups(true, "a", "b"),
		},
		"required node groups, with room becoming free": {
			world: world(gang(3), each(member(), names...), going), racks: rackGroups(true, "a", "b"),
		},
		"preferred node groups": {
			world: world(gang(5), each(member(), "g-0", "g-1", "g-2", "g-3", "g-4")), racks: rackGroups(false, "a", "b"),
		},
		"volumes": {
			world: withObjects(world(gang(3).Topology(hard, 1),
				slices.Concat(each(member().Volume("g-0"), "g-0"), each(member().Volume("g-1"), "g-1"), each(member().Volume("g-2"), "g-2"))), claims(3)),
		},
		"volumes for some": {
			world: withObjects(world(gang(3),
				slices.Concat(each(member().Volume("g-0"), "g-0"), each(member().Volume("g-1"), "g-1"), each(member().Volume("g-2"), "g-2"))),
				append(claims(2), schedtest.UnboundClaim("g-2", "late"))),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.New(tc.world)
			defer cluster.Close()
			b := behaviour{conf: shares + everything, plugins: []framework.PluginSpec{nodeGroups("racks", tc.racks)}}
			before, ssn := b.dropped(cluster, ours)
			defer ssn.Close()
			if diff := cmp.Diff(before, fingerprint(ssn)); diff != "" {
				t.Errorf("session (-before +after):\n%s", diff)
			}
			if binds, waiting := ssn.Binds(), ssn.Pipelined(); len(binds)+len(waiting) > 0 {
				t.Errorf("bound %v, pipelined %v; the gang was not to fit", binds, waiting)
			}
			if job := ssn.Jobs[schedtest.Namespace+"/g"]; len(job.NodesFitErrors) == 0 && job.JobFitErrors == "" {
				t.Error("the gang has no message, so it may not have been tried")
			}
		})
	}
}

// dropped opens a session on the cluster, computes the session's fingerprint, and then runs the action. It returns
// the fingerprint and the session.
func (b behaviour) dropped(cluster *sessiontest.Cluster, act implementation) ([]string, *sessiontest.Session) {
	ssn, actions := b.ready(cluster, act)
	before := fingerprint(ssn)
	ssn.Run(actions...)
	return before, ssn
}

// rackGroups returns node groups for the racks, each with nodes 1 and 2.
func rackGroups(required bool, names ...string) *framework.NodeGroups {
	groups := &framework.NodeGroups{Required: required}
	for _, name := range names {
		groups.Candidates = append(groups.Candidates, &topology.Group{Name: name, Nodes: []string{name + "1", name + "2"}})
	}
	return groups
}

// nodeGroups returns a plugin that gives these node groups to every gang named "g".
func nodeGroups(name string, groups *framework.NodeGroups) framework.PluginSpec {
	return plugin(name, nothing, sessiontest.NodeGroupsFn(func(job *api.JobInfo) (*framework.NodeGroups, error) {
		if groups == nil || job.Name != "g" {
			return nil, nil
		}
		answer := *groups
		answer.Refused = maps.Clone(groups.Refused)
		return &answer, nil
	}))
}

// plugin returns the spec of a plugin that calls open when a session opens. part is optional, and implements further
// interfaces of the plugin.
func plugin(name string, open func(*framework.Session), part ...any) framework.PluginSpec {
	return framework.PluginSpec{Name: name, Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		made := &sessiontest.Plugin{Called: name, Open: open}
		if len(part) > 0 {
			made.Part = part[0]
		}
		return sessiontest.Signed{Plugin: made}, nil
	})}
}
