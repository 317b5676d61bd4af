// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const slotsName = "slots"

// slots is a kube-scheduler plugin that gives each node a number of slots. Each pod takes one. It keeps its state of
// a pod in the pod's CycleState only.
type slots struct {
	perNode map[string]int
	// says is called first at each extension point. A status other than nil is the result.
	says func(point, pod, node string) *fwk.Status
	// filters runs in Filter.
	filters func(ctx context.Context)
	// needsFilter reports whether Reserve fails for a pod that was not filtered on the node.
	needsFilter bool
	// preBinds runs in PreBind.
	preBinds func(ctx context.Context, pod string) error
	// only has the nodes that PreFilter allows.
	only []string

	mu    sync.Mutex
	taken map[string]map[types.UID]bool
	trace []string
}

// held is the state that Reserve writes into the CycleState.
type held struct{ node string }

func (h held) Clone() fwk.StateData { return h }

var (
	_ k8sframework.PreFilterPlugin = (*slots)(nil)
	_ k8sframework.FilterPlugin    = (*slots)(nil)
	_ k8sframework.ScorePlugin     = (*slots)(nil)
	_ k8sframework.ReservePlugin   = (*slots)(nil)
	_ k8sframework.PreBindPlugin   = (*slots)(nil)
	_ k8sframework.PostBindPlugin  = (*slots)(nil)
)

func (s *slots) Name() string { return "Slots" }

// at records the call and returns the scripted status.
func (s *slots) at(point string, pod *v1.Pod, node string) *fwk.Status {
	s.mu.Lock()
	s.trace = append(s.trace, strings.TrimSpace(fmt.Sprintf("%s %s %s", point, pod.Name, node)))
	s.mu.Unlock()
	if s.says == nil {
		return nil
	}
	return s.says(point, pod.Name, node)
}

func (s *slots) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*k8sframework.PreFilterResult, *fwk.Status) {
	state.Write("pod", held{pod.Name})
	if s.only == nil {
		return nil, s.at("prefilter", pod, "")
	}
	return &k8sframework.PreFilterResult{NodeNames: sets.New(s.only...)}, s.at("prefilter", pod, "")
}

func (s *slots) PreFilterExtensions() k8sframework.PreFilterExtensions { return nil }

func (s *slots) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if status := s.at("filter", pod, node.Node().Name); status != nil {
		return status
	}
	if s.filters != nil {
		s.filters(ctx)
	}
	state.Write("filtered on "+fwk.StateKey(node.Node().Name), held{pod.Name})
	if of, err := state.Read("pod"); err != nil || of.(held).node != pod.Name {
		return fwk.AsStatus(fmt.Errorf("the state of %v, %v", of, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.taken[node.Node().Name]) >= s.perNode[node.Node().Name] {
		return fwk.NewStatus(fwk.Unschedulable, "no slot is free")
	}
	return nil
}

func (s *slots) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return int64(len(node.Node().Name)), s.at("score", pod, node.Node().Name)
}

func (s *slots) ScoreExtensions() k8sframework.ScoreExtensions { return s }

// NormalizeScore prefers nodes with short names.
func (s *slots) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, scores k8sframework.NodeScoreList) *fwk.Status {
	for i := range scores {
		scores[i].Score = 100 - scores[i].Score
	}
	return s.at("normalize", pod, "")
}

func (s *slots) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if _, err := state.Read("filtered on " + fwk.StateKey(node)); err != nil && s.needsFilter {
		return fwk.AsStatus(err)
	}
	state.Write("held", held{node})
	if status := s.at("reserve", pod, node); status != nil {
		return status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[node] == nil {
		s.taken[node] = map[types.UID]bool{}
	}
	s.taken[node][pod.UID] = true
	return nil
}

func (s *slots) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	s.at("unreserve", pod, node)
	s.free(state, pod, node)
}

func (s *slots) free(state fwk.CycleState, pod *v1.Pod, node string) {
	if of, err := state.Read("held"); err != nil || of.(held).node != node {
		panic(fmt.Sprintf("%s is given back on %s, with the state of %v: %v", pod.Name, node, of, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken[node], pod.UID)
}

func (s *slots) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s.says == nil {
		return nil
	}
	return s.says("preflight", pod.Name, node)
}

func (s *slots) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if of, err := state.Read("held"); err != nil || of.(held).node != node || pod.Spec.NodeName != node {
		return fwk.AsStatus(fmt.Errorf("pod on %q with the state of %v, %v", pod.Spec.NodeName, of, err))
	}
	if status := s.at("prebind", pod, node); status != nil {
		return status
	}
	pod.Annotations["slot"] = "taken"
	if s.preBinds != nil {
		return fwk.AsStatus(s.preBinds(ctx, pod.Name))
	}
	return nil
}

func (s *slots) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	s.at("postbind", pod, node)
	s.free(state, pod, node)
}

// did returns the recorded calls of the extension points.
func (s *slots) did(points ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.trace), func(entry string) bool {
		return !slices.Contains(points, strings.SplitN(entry, " ", 2)[0])
	})
}

// left returns the number of taken slots.
func (s *slots) left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pods := range s.taken {
		n += len(pods)
	}
	return n
}

const conf = `
actions: allocate
tiers:
- plugins:
  - name: gang
    enableJobStarving: false
  - name: slots
- plugins:
  - name: predicates
`

// harness is a cluster with an open session that uses the plugin.
type harness struct {
	*slots
	registry *framework.Registry
	session  *sessiontest.Session
	adapted  transacting
}

// place opens a session with the plugin, with these options, on the nodes and the gang, and runs allocate.
func place(t *testing.T, s *slots, conf string, w sessiontest.ClusterSpec, opts ...Option) *harness {
	t.Helper()
	s.taken = map[string]map[types.UID]bool{}
	out := &harness{slots: s, registry: framework.NewRegistry()}
	out.registry.RegisterPlugin(framework.PluginSpec{Name: slotsName, Load: framework.WithoutArguments(func(h framework.Handle) (framework.Plugin, error) {
		made, err := New(slotsName, h, func(k8sframework.Handle) (k8sframework.Plugin, error) { return s, nil },
			append(opts, WithWeight(2), WithTimeout(time.Minute))...)
		out.adapted, _ = made.(transacting)
		return made, err
	})})
	out.registry.RegisterPlugin(ibcluster.Spec())
	out.registry.RegisterAction(allocate.New())
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	out.session = cluster.Open(out.registry, conf)
	action, _ := vcframework.GetAction("allocate")
	out.session.Run(action)
	return out
}

// gangOf returns a gang with this number of members, and nodes n1, n2 and so on.
func gangOf(members, least, nodes int) sessiontest.ClusterSpec {
	var w sessiontest.ClusterSpec
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("g").MinMember(int32(least)).Obj())
	for i := range members {
		w.Pods = append(w.Pods, schedtest.MakePod().Group("g").Name(fmt.Sprintf("g-%d", i)).Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	for i := range nodes {
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprintf("n%d", i+1)).Obj())
	}
	return w
}

// keeps returns the number of tasks with state in the adapter.
func (w *harness) keeps() int {
	w.adapted.mu.Lock()
	defer w.adapted.mu.Unlock()
	return len(w.adapted.held)
}

func (w *harness) expect(t *testing.T, reserved int) {
	t.Helper()
	if w.left() != reserved || w.keeps() != reserved {
		t.Errorf("%d slots are taken, and %d tasks kept, want %d", w.left(), w.keeps(), reserved)
	}
}
