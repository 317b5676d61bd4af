// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcbackfill "volcano.sh/volcano/pkg/scheduler/actions/backfill"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestWFFCReplay checks that claims get the nodes of their pods. Upstream's volume plugin remembers only its choice for
// a pod in the last trial, but upstream replays the best trial, which is usually another one. Upstream then reserves
// and binds no volume, but binds the pods.
func TestWFFCReplay(t *testing.T) { bindingVolumes(t, wffcReplay) }

func wffcReplay(t *testing.T, bound func(behaviour) behaviour) {
	const selectedNode = "volume.kubernetes.io/selected-node"
	var nodeNames, pods []string
	var objects []runtime.Object
	var members []*v1.Pod
	for _, rack := range []string{"a", "b", "c", "d"} { // Several racks, so that the best trial is not the last one.
		nodeNames = append(nodeNames, rack+"1", rack+"2")
	}
	objects = append(objects, schedtest.LateClass("late", "rancher.io/local-path"))
	for i := range 2 {
		name := fmt.Sprintf("g-%d", i)
		pods = append(pods, name)
		objects = append(objects, schedtest.UnboundClaim(name, "late"))
		members = append(members, schedtest.MakePod().Group("g").Req(cores("2")).Volume(name).Name(name).Obj())
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes: nodes(holds("2"), nodeNames...), HyperNodes: twoRows, Objects: objects,
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Topology(hard, 1).Obj()},
		Pods:      members,
	})
	defer cluster.Close()
	chosen := map[string]string{}
	var done context.CancelFunc
	cluster.Kube().PrependReactor("update", "persistentvolumeclaims", func(act clienttesting.Action) (bool, runtime.Object, error) {
		claim := act.(clienttesting.UpdateAction).GetObject().(*v1.PersistentVolumeClaim)
		chosen[claim.Name] = claim.Annotations[selectedNode]
		done() // The plugin goes on waiting for a provisioner.
		return false, nil, nil
	})
	ssn := bound(behaviour{conf: topological}).open(cluster, defended)
	defer ssn.Close()

	want := map[string]string{}
	for _, name := range pods {
		handed, ok := ssn.Handed()[schedtest.Namespace+"/"+name]
		if !ok {
			t.Fatalf("pod %s was not committed", name)
		}
		want[name] = handed.Node
		var ctx context.Context
		ctx, done = context.WithCancel(t.Context())
		for _, step := range handed.Steps {
			if err := step.PreBind(ctx, handed.Task, handed.Node); err != nil && ctx.Err() == nil {
				t.Errorf("pre-bind of %s: %v", name, err)
			}
		}
		done()
	}
	if diff := cmp.Diff(want, chosen); diff != "" {
		t.Errorf("nodes of the pods and nodes their claims were given (-pods +claims):\n%s", diff)
	}
}

// TestPipelinedLeak checks that a volume that was reserved for a placed member of a gang is released if another member
// must wait. Upstream keeps the volume reserved until the scheduler restarts, so no other pod gets it.
func TestPipelinedLeak(t *testing.T) { bindingVolumes(t, pipelinedLeak) }

func pipelinedLeak(t *testing.T, bound func(behaviour) behaviour) {
	old, waiting := leaving("n1", "2", "old-0"), schedtest.MakePodGroup().Name("g").MinMember(2).Obj()
	members := []*v1.Pod{
		schedtest.MakePod().Group("g").Req(cores("2")).Volume("c0").Name("g-0").NodeSelector("disk", "yes").Obj(),
		schedtest.MakePod().Group("g").Req(cores("2")).Name("g-1").Obj(),
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     slices.Concat(nodes(holds("2"), "n1"), nodes(holds("2").Label("disk", "yes"), "n2")),
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj(), waiting},
		Pods:      append(old, members...),
		Objects:   []runtime.Object{schedtest.LateClass("late", noProvisioner), schedtest.FreeVolume("v0", "late"), schedtest.UnboundClaim("c0", "late"), schedtest.UnboundClaim("c1", "late")},
	})
	defer cluster.Close()
	first := bound(behaviour{}).open(cluster, defended)
	match(t, "pipelined", map[string]string{"g-1": "n1"}, first.Pipelined())
	first.Close()

	for _, pod := range members {
		cluster.Cache().DeletePod(pod)
	}
	cluster.Cache().DeletePodGroupV1beta1(waiting)
	cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("h").Obj())
	cluster.Cache().AddPod(schedtest.MakePod().Group("h").Req(cores("2")).Volume("c1").Name("h-0").Obj())
	second := bound(behaviour{}).open(cluster, defended)
	defer second.Close()
	match(t, "bound", map[string]string{"h-0": "n2"}, second.Binds())
}

// TestReserveLeakOfVolumes checks that another gang gets the only volume if another plugin refuses the member for
// which it was reserved, or the next member, at the end of the placement.
func TestReserveLeakOfVolumes(t *testing.T) { bindingVolumes(t, reserveLeakOfVolumes) }

func reserveLeakOfVolumes(t *testing.T, bound func(behaviour) behaviour) {
	for _, refused := range []string{"g-0", "g-1"} {
		t.Run("of "+refused, func(t *testing.T) {
			gang := schedtest.MakePodGroup().Name("g").MinMember(2).Obj()
			members := []*v1.Pod{
				schedtest.MakePod().Group("g").Req(cores("1")).Volume("c0").Name("g-0").Obj(),
				schedtest.MakePod().Group("g").Req(cores("1")).Name("g-1").Obj(),
			}
			cluster := sessiontest.New(sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), PodGroups: []*v1beta1.PodGroup{gang}, Pods: members,
				Objects: []runtime.Object{schedtest.LateClass("late", noProvisioner), schedtest.FreeVolume("v0", "late"), schedtest.UnboundClaim("c0", "late"), schedtest.UnboundClaim("c1", "late")},
			})
			defer cluster.Close()
			refuses := behaviour{conf: plain + "\n- plugins:\n  - name: refuser\n", plugins: []framework.PluginSpec{
				plugin("refuser", func(ssn *framework.Session) {
					takes(ssn, map[string]string{}, func(pod, _ string, _ int) bool { return pod == refused })
				}),
			}}
			first := bound(refuses).open(cluster, defended)
			match(t, "bound at first", nil, first.Binds())
			first.Close()

			for _, pod := range members {
				cluster.Cache().DeletePod(pod)
			}
			cluster.Cache().DeletePodGroupV1beta1(gang)
			cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("h").Obj())
			cluster.Cache().AddPod(schedtest.MakePod().Group("h").Req(cores("2")).Volume("c1").Name("h-0").Obj())
			second := bound(refuses).open(cluster, defended)
			defer second.Close()
			match(t, "bound then", map[string]string{"h-0": "n1"}, second.Binds())
		})
	}
}

// TestReleasedWithoutHavingBegun checks that a gang can move to another node after a step failed that precedes the
// volume plugin's own step. Upstream reverts the assumed volumes only in the rollback of the volume plugin's step,
// which has not begun. So the claims stay with the first node's volumes, and the gang can never move.
func TestReleasedWithoutHavingBegun(t *testing.T) { bindingVolumes(t, releasedWithoutHavingBegun) }

func releasedWithoutHavingBegun(t *testing.T, bound func(behaviour) behaviour) {
	const members = 3
	objects := []runtime.Object{schedtest.LateClass("late", noProvisioner)}
	var pods []*v1.Pod
	for i := range members {
		name := fmt.Sprintf("g-%d", i)
		objects = append(objects, schedtest.UnboundClaim(name, "late"), schedtest.FreeVolume("first-"+name, "late", "n1"), schedtest.FreeVolume("second-"+name, "late", "n2"))
		pods = append(pods, schedtest.MakePod().Group("g").Req(cores("1")).Volume(name).Name(name).Obj())
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     slices.Concat(nodes(holds("3"), "n1"), []*v1.Node{holds("3").Name("n2").Cordon().Obj()}),
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(members).Obj()},
		Pods:      pods, Objects: objects,
	})
	defer cluster.Close()
	first := bound(behaviour{}).open(cluster, defended)
	match(t, "bound at first", map[string]string{"g-0": "n1", "g-1": "n1", "g-2": "n1"}, first.Binds())
	var handed []*binding.Member
	for _, bind := range first.Handed() {
		refuses := binding.Step{Plugin: "refuses", PreBind: func(context.Context, *api.TaskInfo, string) error { return errors.New("not here") }}
		handed = append(handed, binding.NewMember(bind.Task, bind.Node, append([]binding.Step{refuses}, bind.Steps...)))
	}
	first.Close()
	released := rollBack(t, handed)
	if released != members {
		t.Fatalf("%d members were released, want %d", released, members)
	}

	for _, node := range []*v1.Node{holds("3").Name("n1").Cordon().Obj(), holds("3").Name("n2").Obj()} {
		if err := cluster.Cache().AddOrUpdateNode(node); err != nil {
			t.Fatal(err)
		}
	}
	second := bound(behaviour{}).open(cluster, defended)
	defer second.Close()
	match(t, "bound then", map[string]string{"g-0": "n2", "g-1": "n2", "g-2": "n2"}, second.Binds())
}

// rollBack runs a transaction of the members, in which a step fails, and returns how many members were released.
func rollBack(t *testing.T, members []*binding.Member) int {
	t.Helper()
	books := &books{}
	engine := binding.New(books, books, books, books)
	if err := engine.Submit(&binding.Transaction{Gang: schedtest.Namespace + "/g", Members: members}); err != nil {
		t.Fatal(err)
	}
	if err := engine.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return books.released
}

// books is the ledger of a gang that needs all three members. It binds no pod.
type books struct {
	binding.Binder
	binding.Observer
	mu       sync.Mutex
	released int
}

func (*books) Quorum(_ context.Context, _ *binding.Transaction, passed []*binding.Member) error {
	if len(passed) < 3 {
		return errors.New("too few")
	}
	return nil
}

func (b *books) Released(*binding.Member, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released++
}

func (*books) Bound(*binding.Member)                 {}
func (*books) Ended(binding.Result)                  {}
func (*books) StepDone(string, error, time.Duration) {}
func (*books) RollbackDone(string, error)            {}
func (*books) TransactionDone(binding.Result)        {}
func (*books) InFlight(int)                          {}

// TestBackfilledLeak checks that a volume that backfill reserved for a pod is released when the session closes.
// Backfill places a pod whose gang it cannot complete, and does not undo the placement.
func TestBackfilledLeak(t *testing.T) { bindingVolumes(t, backfilledLeak) }

func backfilledLeak(t *testing.T, bound func(behaviour) behaviour) {
	waiting := schedtest.MakePodGroup().Name("g").MinMember(2).Obj()
	members := []*v1.Pod{
		schedtest.MakePod().Group("g").Volume("c0").Name("g-0").Obj(),
		schedtest.MakePod().Group("g").Req(cores("9")).Name("g-1").Obj(),
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes: nodes(holds("2"), "n1"), PodGroups: []*v1beta1.PodGroup{waiting}, Pods: members,
		Objects: []runtime.Object{schedtest.LateClass("late", noProvisioner), schedtest.FreeVolume("v0", "late"), schedtest.UnboundClaim("c0", "late"), schedtest.UnboundClaim("c1", "late")},
	})
	defer cluster.Close()
	backfills := implementation{"backfill", func(*framework.Registry) vcframework.Action { return vcbackfill.New() }}
	first := bound(behaviour{}).open(cluster, backfills)
	match(t, "placed", map[string]string{"g-0": "n1"}, placed(first))
	match(t, "bound", nil, first.Binds())
	first.Close()

	for _, pod := range members {
		cluster.Cache().DeletePod(pod)
	}
	cluster.Cache().DeletePodGroupV1beta1(waiting)
	cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("h").Obj())
	cluster.Cache().AddPod(schedtest.MakePod().Group("h").Req(cores("2")).Volume("c1").Name("h-0").Obj())
	second := bound(behaviour{}).open(cluster, defended)
	defer second.Close()
	match(t, "bound then", map[string]string{"h-0": "n1"}, second.Binds())
}

// TestRevertedTaskReleasesNoVolumeOfAnotherPod checks that reverting a task releases no volume of another pod.
// Upstream's preempt places a gang on an idle node and reserves no volume. Backfill then reserves the only volume for another
// pod. Reverting the gang's member does not release that volume, neither in this session nor in the next.
func TestRevertedTaskReleasesNoVolumeOfAnotherPod(t *testing.T) {
	preempts := implementation{"preempt-upstream", func(registry *framework.Registry) vcframework.Action {
		registry.RegisterAction(preempt.New(nil))
		for _, action := range preempt.Upstreams() {
			registry.RegisterAction(action)
		}
		return ours.make(registry)
	}}
	for name, runs := range map[string][]string{
		"by allocate":                          {"preempt-upstream", "backfill", "allocate"},
		"when the session is closed":           {"preempt-upstream", "backfill"},
		"by this project's preempt":            {"preempt", "backfill", "allocate"},
		"by this project's preempt, and alone": {"preempt", "backfill"},
	} {
		t.Run(name, func(t *testing.T) {
			bindingVolumes(t, func(t *testing.T, bound func(behaviour) behaviour) {
				cluster := sessiontest.New(sessiontest.ClusterSpec{
					Nodes:     nodes(holds("2"), "n1"),
					PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(1).Obj(), schedtest.MakePodGroup().Name("h").MinMember(1).Obj()},
					Pods: []*v1.Pod{
						schedtest.MakePod().Group("g").Req(cores("1")).Volume("c0").Name("g-0").Obj(),
						schedtest.MakePod().Group("h").Volume("c1").Name("h-0").Obj(),
					},
					Objects: []runtime.Object{schedtest.LateClass("late", noProvisioner), schedtest.FreeVolume("v0", "late"), schedtest.UnboundClaim("c0", "late"), schedtest.UnboundClaim("c1", "late")},
				})
				defer cluster.Close()
				binds := map[string]string{}
				session := func(runs ...string) {
					ssn, placing := bound(behaviour{}).ready(cluster, preempts)
					var actions []vcframework.Action
					for _, name := range runs {
						switch name {
						case "allocate":
							actions = append(actions, placing...)
						case "backfill":
							actions = append(actions, vcbackfill.New())
						default:
							action, _ := vcframework.GetAction(name)
							actions = append(actions, action)
						}
					}
					ssn.Run(actions...)
					maps.Copy(binds, ssn.Binds())
					ssn.Close()
				}
				session(runs...)
				if len(binds) == 0 {
					session("allocate") // Until then the volume was reserved for the gang.
				}
				session("allocate")
				if len(binds) != 1 {
					t.Errorf("bound are %v, want one pod with the only volume", binds)
				}
			})
		})
	}
}
