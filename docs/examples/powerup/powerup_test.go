// SPDX-License-Identifier: Apache-2.0

package powerup

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const conf = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: powerup
    arguments: {powerup.wattsPerRack: 1000, powerup.namespace: racks}
- plugins:
  - name: predicates
`

const (
	gang  = "ns/g"
	watts = 400
)

// placedGang is a cluster in which a session placed a gang.
type placedGang struct {
	t        *testing.T
	cluster  *sessiontest.Cluster
	session  *sessiontest.Session
	starting *budget
}

// place runs a session with a gang of members that draw 400 W each. The cluster has one node in each rack, and each rack has
// 1000 W.
func place(t *testing.T, members, least, racks int) *placedGang {
	t.Helper()
	in := sessiontest.ClusterSpec{}
	in.PodGroups = append(in.PodGroups, schedtest.MakePodGroup().Name("g").MinMember(int32(least)).Obj())
	for i := range members {
		pod := schedtest.MakePod().Group("g").Name(fmt.Sprintf("g-%d", i)).Annotation(WattsAnnotation, strconv.Itoa(watts))
		in.Pods = append(in.Pods, pod.Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	for i := range racks {
		in.Nodes = append(in.Nodes, schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Label(RackLabel, fmt.Sprintf("r%d", i)).Obj())
	}
	w := &placedGang{t: t, cluster: sessiontest.New(in), starting: newBudget()}
	t.Cleanup(w.cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(specWith(w.starting))
	registry.RegisterAction(allocate.New())
	w.session = w.cluster.Open(registry, conf)
	action, _ := vcframework.GetAction("allocate")
	w.session.Run(action)
	w.session.Close()
	return w
}

// drawn returns the power reserved for starting pods, by rack.
func (w *placedGang) drawn() map[string]int {
	out := map[string]int{}
	for rack := range w.starting.drawn {
		out[rack] = w.starting.sum(rack)
	}
	return out
}

// leases lists the pods that have a Lease.
func (w *placedGang) leases() []string {
	w.t.Helper()
	list, err := w.cluster.Kube().CoordinationV1().Leases("racks").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var pods []string
	for i := range list.Items {
		pods = append(pods, *list.Items[i].Spec.HolderIdentity)
	}
	slices.Sort(pods)
	return pods
}

// fail makes the creation of the pod's Lease return an error, or panic if panics is set.
func (w *placedGang) fail(pod string, panics bool) {
	w.cluster.Kube().PrependReactor("create", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName()
		if !strings.HasSuffix(name, pod) {
			return false, nil, nil
		}
		if panics {
			panic("oh no")
		}
		return true, nil, errors.New("the rack refuses it")
	})
}

func (w *placedGang) expect(drawn map[string]int, leases ...string) {
	w.t.Helper()
	if diff := cmp.Diff(drawn, w.drawn()); diff != "" {
		w.t.Errorf("drawn (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(leases, w.leases()); diff != "" {
		w.t.Errorf("leases (-want +got):\n%s", diff)
	}
}

// TestTrials checks that a gang is placed on racks with enough power for all members, and that the reservations of a
// gang that is not placed are released.
func TestTrials(t *testing.T) {
	cases := map[string]struct {
		members, least, racks int
		want                  map[string]int
	}{
		"one rack has enough":            {members: 2, least: 2, racks: 1, want: map[string]int{"r0": 2 * watts}},
		"two racks have enough":          {members: 4, least: 4, racks: 2, want: map[string]int{"r0": 2 * watts, "r1": 2 * watts}},
		"enough for the minimum":         {members: 3, least: 2, racks: 1, want: map[string]int{"r0": 2 * watts}},
		"below the minimum in one rack":  {members: 3, least: 3, racks: 1, want: map[string]int{}},
		"below the minimum in two racks": {members: 5, least: 5, racks: 2, want: map[string]int{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := place(t, tc.members, tc.least, tc.racks)
			w.expect(tc.want)
			total := 0
			for _, drawn := range tc.want {
				total += drawn
			}
			if n := len(w.session.Binds()); n*watts != total {
				t.Errorf("%d pods were committed", n)
			}
		})
	}
}

// TestTransactions checks that no reservation and no Lease of the gang is left at the end of a transaction, whatever
// its result.
func TestTransactions(t *testing.T) {
	cases := map[string]struct {
		fate sessiontest.Fate
		// fails makes PreBind of the second member fail. With panics it panics instead.
		fails, panics bool
		bound         int
	}{
		"bound":                              {fate: sessiontest.Fate{Minimum: 2}, bound: 2},
		"one fails, and both are needed":     {fate: sessiontest.Fate{Minimum: 2}, fails: true},
		"one fails, and one is enough":       {fate: sessiontest.Fate{Minimum: 1}, fails: true, bound: 1},
		"one crashes, and both are needed":   {fate: sessiontest.Fate{Minimum: 2}, fails: true, panics: true},
		"one is lost before its step begins": {fate: sessiontest.Fate{Minimum: 2, Lost: map[string]error{"ns/g-1": errors.New("deleted")}}},
		"the bind of one is rejected":        {fate: sessiontest.Fate{Minimum: 2, Rejected: map[string]bool{"ns/g-1": true}}, bound: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := place(t, 2, 2, 1)
			if tc.fails {
				w.fail("g-1", tc.panics)
			}
			r := sessiontest.Transact(w.session, gang, tc.fate).Wait()
			if len(r.Bound) != tc.bound || len(r.Bound)+len(r.Failed) != 2 {
				t.Errorf("%d are bound and %d are not, want %d bound", len(r.Bound), len(r.Failed), tc.bound)
			}
			w.expect(map[string]int{})
		})
	}
}

// TestLeasesExistUntilTheGangIsBound checks that the Leases of all members exist before the first one is deleted.
func TestLeasesExistUntilTheGangIsBound(t *testing.T) {
	w := place(t, 2, 2, 1)
	sessiontest.Transact(w.session, gang, sessiontest.Fate{Minimum: 2}).Wait()
	var verbs []string
	for _, action := range w.cluster.Kube().Actions() {
		if verb := action.GetVerb(); action.GetResource().Resource == "leases" && (verb == "create" || verb == "delete") {
			verbs = append(verbs, verb)
		}
	}
	if diff := cmp.Diff([]string{"create", "create", "delete", "delete"}, verbs); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestRecover starts after the scheduler died while it was binding a gang, and checks that the next leader's plugin
// deletes the Leases of the gang.
func TestRecover(t *testing.T) {
	w := place(t, 2, 2, 1)
	for _, bind := range w.session.Handed() {
		if err := bind.Steps[0].PreBind(t.Context(), bind.Task, bind.Node); err != nil {
			t.Fatal(err)
		}
	}
	w.expect(map[string]int{"r0": 2 * watts}, "ns/g-0", "ns/g-1")
	made, err := Spec().New(framework.Arguments{namespaceArgument: "racks"}, w.cluster.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := made.(framework.Recoverer).Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := w.leases(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestInvalidAnnotations checks that a pod with an invalid WattsAnnotation is unschedulable.
func TestInvalidAnnotations(t *testing.T) {
	for _, value := range []string{"much", "-1", ""} {
		pod := schedtest.MakePod().Annotation(WattsAnnotation, value).Obj()
		_, status := (&PowerUp{}).PreFilter(t.Context(), k8sframework.NewCycleState(), pod, nil)
		if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), "must be a number of watts") {
			t.Errorf("%q: %v", value, status)
		}
	}
}

// TestImportsOnlyTheFramework checks that the plugin imports only the packages framework and kubeplugin of the
// scheduler.
func TestImportsOnlyTheFramework(t *testing.T) {
	const module = "github.com/volcano-prebind/volcano-prebind/"
	imported := map[string]bool{}
	for _, file := range []string{"spec.go", "plugin.go", "budget.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(path, module) {
				imported[strings.TrimPrefix(path, module)] = true
			}
		}
	}
	want := map[string]bool{"pkg/scheduler/framework": true, "pkg/scheduler/framework/kubeplugin": true}
	if diff := cmp.Diff(want, imported); diff != "" {
		t.Errorf("imports from the scheduler's module (-want +got):\n%s", diff)
	}
}
