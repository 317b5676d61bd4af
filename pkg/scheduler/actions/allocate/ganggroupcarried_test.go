// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// groupTold has the decisions and messages of a session about gang groups.
type groupTold struct {
	Binds, Pipelined, Says map[string]string
	Reasons                map[string]framework.PendingReason
	Explanations           map[string]*framework.GangExplanation
}

// groupSession runs the action in a session of the cluster, and counts the placed members, including members in
// trials.
func groupSession(c *counting, action vcframework.Action, w sessiontest.ClusterSpec) (told groupTold, placed int) {
	c.cluster.Load(w)
	ssn := c.cluster.Open(c.registry, c.conf)
	defer ssn.Close()
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(*vcframework.Event) { placed++ }})
	ssn.Run(action)
	told = groupTold{ssn.Binds(), ssn.Pipelined(), map[string]string{}, map[string]framework.PendingReason{}, map[string]*framework.GangExplanation{}}
	for _, podGroup := range w.PodGroups {
		id := api.JobID(schedtest.Namespace + "/" + podGroup.Name)
		told.Says[podGroup.Name] = ssn.Jobs[id].JobFitErrors
		told.Reasons[podGroup.Name], _ = ssn.PendingReason(id)
		if ssn.Explanation("") != nil {
			told.Says[""] = "no gang has an explanation"
		}
		if of := ssn.Explanation(id); of != nil {
			own := *of
			own.Time = time.Time{}
			told.Explanations[podGroup.Name] = &own
		}
	}
	return told, placed
}

// addGroup adds a gang group whose gangs compete for the room of a few nodes. Packing does not support some of the
// members.
func (c *changing) addGroup(names ...string) {
	list := `["ns/` + strings.Join(names, `","ns/`) + `"]`
	for _, name := range names {
		members := 1 + c.IntN(4)
		podGroup := schedtest.MakePodGroup().Name(name).Phase(v1beta1.PodGroupInqueue).Annotation(gangs.GroupsAnnotation, list).MinMember(int32(members))
		if of := c.IntN(4); of > 0 {
			podGroup.Annotation(ibcluster.ModeAnnotation, []string{"", "required", "preferred", "required"}[of])
		}
		if c.IntN(4) == 0 {
			podGroup.MinMember(1 + int32(c.IntN(members)))
		}
		if c.IntN(8) == 0 {
			podGroup.Queue("small")
		}
		ports := c.IntN(10) == 0
		for i := range members {
			pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name)
			if c.IntN(10) > 0 {
				pod.Req(schedtest.Resources{"cpu": fmt.Sprint(1 + c.IntN(5))})
			}
			if c.IntN(4) == 0 {
				pod.NodeSelector("zone", fmt.Sprint("z", c.IntN(2)))
			}
			made := pod.Obj()
			if ports {
				made.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			}
			c.world.Pods = append(c.world.Pods, made)
		}
		c.world.PodGroups = append(c.world.PodGroups, podGroup.Obj())
	}
}

// changeGroup changes the nodes that a gang may use.
func (c *changing) changeGroup() {
	at := c.IntN(len(c.world.PodGroups))
	group := c.world.PodGroups[at].DeepCopy()
	group.Annotations[ibcluster.ModeAnnotation] = []string{"preferred", "required"}[c.IntN(2)]
	c.world.PodGroups[at] = group
}

// TestCarriedOverResultsOfGroupsEqualNewOnes checks that an action with cached results of gang groups has the same
// placements and messages as a new one. While nothing changes, it places few members in trials.
func TestCarriedOverResultsOfGroupsEqualNewOnes(t *testing.T) {
	base := newGroup(t, []string{"1"}, []string{"1"})
	avoided := ""
	base.helped(nothing, sessiontest.AvoidNodesFn(func(job *api.JobInfo) []string {
		if job.UID == "ns/b" && avoided != "" {
			return []string{avoided}
		}
		return nil
	}))
	kept, fresh, bound, pipelined := 0, 0, 0, 0
	for seed := range uint64(60) {
		c := &changing{Rand: rand.New(rand.NewPCG(seed, 11))}
		for i := range 5 {
			n := node(fmt.Sprintf("n%d", i), fmt.Sprintf("ib-%d", i/3), fmt.Sprint(2+c.IntN(5)))
			n.Labels["zone"] = fmt.Sprint("z", i%2)
			c.world.Nodes = append(c.world.Nodes, n)
		}
		c.world.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("small").Capability(schedtest.Resources{"cpu": "6"}).Obj()}
		for i := range c.IntN(3) {
			leaves := schedtest.MakePod().Name(fmt.Sprint("leaves-", i)).Node(fmt.Sprint("n", i)).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "2"}).Terminating().Obj()
			c.world.Pods = append(c.world.Pods, leaves)
		}
		c.addGroup("a", "b")
		if c.IntN(2) == 0 {
			c.addGroup("x", "y", "z")
		}
		avoided = ""
		action, changed := counted(base.registry, new(int)), true
		for step := range 5 {
			got, placed := groupSession(base, action, c.world)
			want, anew := groupSession(base, counted(base.registry, new(int)), c.world)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, session %d (-new action +cached):\n%s", seed, step, diff)
			}
			if bound, pipelined = bound+len(got.Binds), pipelined+len(got.Pipelined); !changed && len(got.Binds)+len(got.Pipelined) == 0 {
				kept, fresh = kept+placed, fresh+anew
			}
			switch n := c.IntN(5); {
			case n < 2:
				changed = false
			case n < 4:
				c.change()
				changed = true
			default:
				if changed = true; c.IntN(2) == 0 {
					c.changeGroup()
				} else {
					avoided = fmt.Sprint("n", c.IntN(5))
				}
			}
			c.world.Pods = slices.Clone(c.world.Pods)
		}
	}
	t.Logf("%d bound, %d pipelined; where nothing changes %d members are placed in trials, %d by actions that remember nothing", bound, pipelined, kept, fresh)
	if bound < 100 || pipelined < 20 || fresh < 100 || kept*3 > fresh {
		t.Errorf("%d bound, %d pipelined; where nothing changes %d members are placed in trials, %d by actions that remember nothing", bound, pipelined, kept, fresh)
	}
}
