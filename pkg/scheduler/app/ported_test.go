// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/docs/examples/ported"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// recorded is the example plugin with a pre-bind step of upstream's that records the pods.
type recorded struct {
	vcframework.Plugin
	opened *int
	mu     *sync.Mutex
	bound  map[string]bool
}

func (r *recorded) OnSessionOpen(ssn *vcframework.Session) {
	*r.opened++
	r.Plugin.OnSessionOpen(ssn)
	ssn.RegisterBinder(r.Name(), r)
}

// note is what the plugin leaves for its pre-bind step.
type note struct{ pod string }

func (r *recorded) PreBind(_ context.Context, bound *vccache.BindContext) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bound[bound.Extensions[r.Name()].(*note).pod] = true
	return nil
}

func (r *recorded) PreBindRollBack(context.Context, *vccache.BindContext) {}

func (r *recorded) SetupBindContextExtension(_ *k8sframework.CycleState, bound *vccache.BindContext) {
	bound.Extensions[r.Name()] = &note{bound.TaskInfo.Name}
}

// TestAPluginOfUpstreamsFrameworkRunsUnchanged checks that a build of the scheduler can add a plugin that is written
// against upstream's framework: the configuration may name it and its arguments, its predicate and its pre-bind step count,
// and the step reads what the plugin has left for it.
func TestAPluginOfUpstreamsFrameworkRunsUnchanged(t *testing.T) {
	opened, mu, bound := 0, sync.Mutex{}, map[string]bool{}
	spec := framework.FromUpstream(ported.Name, func(args vcframework.Arguments) vcframework.Plugin {
		return &recorded{ported.New(args), &opened, &mu, bound}
	})
	spec.Arguments = ported.Spec().Arguments
	catalogue := config.NewCatalogue(append(PluginSpecs(), spec)...)
	text := "actions: \"enqueue, allocate\"\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: racks, arguments: {rack: b}}]\n"
	cfg, err := config.Parse([]byte(text), catalogue)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse([]byte(strings.Replace(text, "rack: b", "row: b", 1)), catalogue); err == nil {
		t.Error("an argument that the plugin does not declare is accepted")
	}
	cluster := gangOf(3)
	for _, rack := range []string{"a", "b"} {
		cluster.Put(schedtest.MakeNode().Name("n-"+rack).Label(ported.Label, rack).Obj())
	}
	s := newIdleScheduler(t, cluster)
	s.registry.RegisterPlugin(spec)
	run(t, s, cfg)
	s.cycle()
	eventually(t, func() bool { return cmp.Equal([]string{"n-b", "n-b", "n-b"}, nodesOf(cluster, 3)) })
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[string]bool{"p0": true, "p1": true, "p2": true}, bound); diff != "" {
		t.Errorf("pods whose pre-bind step ran (-want +got):\n%s", diff)
	}
	if opened != 1 {
		t.Errorf("the plugin was opened %d times in 1 session", opened)
	}
}
