// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// overLimit is far more than failed attempts for gangs of one namespace may cost in a session, and less than in three.
const overLimit = 600_000

// newShared returns a cluster with gang other/y, which fits, and namespace ns, and the action that runs in it.
func newShared(t *testing.T, w sessiontest.ClusterSpec) (*counting, *allocate.Action) {
	pods, podGroup := gang("y", "1")
	podGroup.Namespace, pods[0].Namespace, pods[0].UID = "other", "other", types.UID("other-y")
	w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
	c := newGroup(t, nil, nil)
	c.world = w
	action := allocate.New()
	c.registry.RegisterAction(action)
	c.action, _ = vcframework.GetAction("allocate")
	return c, action
}

// TestANamespaceOverItsLimitWaits checks that a gang of a namespace whose failed attempts exceed the limit is not tried
// until later sessions have made up for it. Another namespace's gang is bound in each session.
func TestANamespaceOverItsLimitWaits(t *testing.T) {
	pods, podGroup := gang("x", "1")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	action.ChargeNamespace(schedtest.Namespace, overLimit)
	want := []map[string]string{{"other/y-0": "n1"}, {"ns/x-0": "n1", "other/y-0": "n1"}, {"ns/x-0": "n1", "other/y-0": "n1"}}
	for i, want := range want {
		c.look(func(ssn *sessiontest.Session) {
			if diff := cmp.Diff(want, ssn.Binds()); diff != "" {
				t.Errorf("bound in session %d (-want +got):\n%s", i, diff)
			}
			said := "not tried yet: gangs of namespace ns that fit nowhere have used up the namespace's search budget of this cycle; trying it in a later cycle"
			if got := ssn.Jobs["ns/x"].JobFitErrors; i == 0 && got != said {
				t.Errorf("in session %d, the gang said %q, want %q", i, got, said)
			}
		})
	}
}

// TestAGangThatIsNotTriedKeepsItsReason checks that a gang without a turn reports why it did not fit when it was tried,
// although the cluster has changed, and that it is placed when it is tried again.
func TestAGangThatIsNotTriedKeepsItsReason(t *testing.T) {
	tests := map[string]func(podGroups []*v1beta1.PodGroup){
		"a gang": func([]*v1beta1.PodGroup) {},
		"a gang that needs one InfiniBand cluster": func(podGroups []*v1beta1.PodGroup) {
			podGroups[0].Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
		},
		"a gang group": func(podGroups []*v1beta1.PodGroup) {
			for _, podGroup := range podGroups {
				podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/x","ns/z"]`}
			}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			large, podGroup := gang("x", "9", "9")
			small, second := gang("z", "1")
			podGroups := []*v1beta1.PodGroup{podGroup, second}
			change(podGroups)
			tainted := node("n1", "ib-a", "12")
			tainted.Spec.Taints = []v1.Taint{{Key: "maintenance", Effect: v1.TaintEffectNoSchedule}}
			c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{tainted}, Pods: append(large, small...), PodGroups: podGroups})
			var reports []map[string]string
			reported := func(ssn *sessiontest.Session) {
				job := ssn.Jobs["ns/x"]
				report := map[string]string{"": job.JobFitErrors}
				for _, task := range job.Tasks {
					if errs := job.NodesFitErrors[task.UID]; errs != nil {
						report[task.Name] = errs.Error()
					}
				}
				reports = append(reports, report)
			}
			c.look(reported)
			action.ChargeNamespace(schedtest.Namespace, overLimit)
			c.world.Nodes = append(c.world.Nodes, node("n2", "ib-a", "30"))
			c.look(reported)
			if reports[0][""] == "" || reports[0]["x-0"] == "" {
				t.Fatalf("the first session reports %q", reports[0])
			}
			if name == "a gang group" { // messages of pods are not kept for gang groups
				delete(reports[0], "x-0")
			}
			if diff := cmp.Diff(reports[0], reports[1]); diff != "" {
				t.Errorf("reported without a turn (-first session +second session):\n%s", diff)
			}
			c.look(func(ssn *sessiontest.Session) {
				if binds := ssn.Binds(); binds["ns/x-0"] == "" || binds["ns/x-1"] == "" {
					t.Errorf("with a second node, %v are bound", binds)
				}
			})
		})
	}
}

// TestOnlyFailedAttemptsCount checks how many checks of nodes count towards the limit of a namespace.
func TestOnlyFailedAttemptsCount(t *testing.T) {
	tests := map[string]struct {
		cpus  []string
		group bool
		want  int
	}{
		"a gang that is placed":                 {cpus: []string{"2", "1"}},
		"one class that no node takes":          {cpus: []string{"9"}, want: 3},
		"two classes, of which one fits":        {cpus: []string{"9", "1"}, want: 3},
		"a gang group of which a gang fits not": {cpus: []string{"9"}, group: true, want: 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("x", tt.cpus...)
			more, second := gang("z", "9")
			w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8"), node("n2", "ib-a", "8"), node("n3", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			if tt.group {
				w.Pods, w.PodGroups = append(w.Pods, more...), append(w.PodGroups, second)
				for _, podGroup := range w.PodGroups {
					podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/x","ns/z"]`}
				}
			}
			c, action := newShared(t, w)
			c.look(func(*sessiontest.Session) {})
			if got := action.LooksOf(schedtest.Namespace); got != tt.want {
				t.Errorf("%d looks, want %d", got, tt.want)
			}
			if got := action.LooksOf("other"); got != 0 {
				t.Errorf("%d looks of the other namespace, whose gang is placed, want 0", got)
			}
		})
	}
}
