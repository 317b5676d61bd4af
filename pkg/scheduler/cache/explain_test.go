// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcscheduler "volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// sessions runs cycles on a harness.
type sessions struct {
	*harness
	registry *framework.Registry
	profile  *framework.Profile
}

// explainConf returns a configuration with the named plugins in addition to gang and predicates.
func explainConf(plugins ...string) string {
	text := "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
	for _, plugin := range plugins {
		text += "  - name: " + plugin + "\n"
	}
	return text
}

func newSessions(w *harness, confText string, specs ...framework.PluginSpec) *sessions {
	w.t.Helper()
	benchMetrics.Do(vcmetrics.InitKubeSchedulerRelatedMetrics)
	_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf(confText)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &sessions{harness: w, registry: framework.NewRegistry()}
	s.registry.Reporter = report.NewPendingGangs(nil)
	s.registry.RegisterPlugin(transaction.Spec(w.cache))
	for _, spec := range append(specs, ibcluster.Spec()) {
		s.registry.RegisterPlugin(spec)
	}
	s.registry.RegisterAction(allocate.New())
	s.profile, err = s.registry.Build(framework.ProfileInput{
		Actions: []string{"enqueue", "allocate", "backfill"}, Tiers: append([]conf.Tier{transaction.Tier(0)}, tiers...), Configurations: configurations,
	}, w.cache.handle)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// cycle runs one cycle and advances the clock by a second.
func (s *sessions) cycle() {
	conf.EnabledActionMap = map[string]bool{"enqueue": true, "allocate": true, "backfill": true}
	ssn := s.registry.OpenSession(s.cache, s.profile)
	for _, action := range s.profile.Actions {
		ssn.Action = action.Name()
		action.Execute(ssn.Session)
	}
	s.registry.CloseSession(ssn)
	time.Sleep(statuswriter.Settle + 100*time.Millisecond)
	synctest.Wait()
}

// says returns the PodGroup's condition with the reason why members wait, as "Type Reason: message".
func (s *sessions) says() string {
	for _, c := range s.cluster.PodGroup("g").Status.Conditions {
		if c.Message != "" {
			return fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	return ""
}

// podSays returns the PodScheduled condition of the pod as "Reason: message".
func (s *sessions) podSays(name string) string {
	_, c := podutil.GetPodCondition(&s.cluster.Pod(name).Status, v1.PodScheduled)
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// members returns pods of gang g that request this number of GPUs.
func members(n int, gpus string) []*schedtest.PodBuilder {
	var pods []*schedtest.PodBuilder
	for i := range n {
		pods = append(pods, pod(i).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": gpus}))
	}
	return pods
}

func nodeOf8(i int) *schedtest.NodeBuilder {
	return schedtest.MakeNode().Name(fmt.Sprintf("n%02d", i)).Capacity(schedtest.Resources{"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": "8", "pods": "110"})
}

func gpuNodes(n int) []runtime.Object {
	var nodes []runtime.Object
	for i := range n {
		nodes = append(nodes, nodeOf8(i).Obj())
	}
	return nodes
}

// filler returns a pod of another gang that takes all GPUs of the node.
func filler(i int) runtime.Object {
	return schedtest.MakePod().Name(fmt.Sprintf("filler%d", i)).Group("other").Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).
		Node(fmt.Sprintf("n%02d", i)).Phase(v1.PodRunning).Obj()
}

func other() runtime.Object {
	return schedtest.MakePodGroup().Name("other").MinMember(1).Phase(v1beta1.PodGroupRunning).Obj()
}

// TestAPodWithASchedulingGateGetsNoMessage checks that a pod with a scheduling gate does not get the message of its
// gang's other pods, which no session sees. The API server reports what this pod waits for.
func TestAPodWithASchedulingGateGetsNoMessage(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(nodeOf8(0).Obj(), pod(0).Gate("example.com/quota").Obj(), pod(1).Obj())
		s := newSessions(w, explainConf())
		for range 3 {
			s.cycle()
		}
		const want = `PodGroupNotFound: PodGroup "g" does not exist; create it, or correct the pod's annotation scheduling.k8s.io/group-name`
		if diff := cmp.Diff([]string{"", want}, []string{s.podSays("p0"), s.podSays("p1")}); diff != "" {
			t.Errorf("pods say (-want +got):\n%s", diff)
		}
	})
}

// TestAGangWithSurplusIsScheduled checks that a gang with surplus members is reported as scheduled. Its minimum runs, so one event reports that it is scheduled, and no event reports the opposite although further
// members wait.
func TestAGangWithSurplusIsScheduled(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(append(gpuNodes(1), schedtest.MakePodGroup().Name("g").MinMember(1).Obj(),
			pod(8).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).Node("n00").Phase(v1.PodRunning).Obj())...)
		for _, pod := range members(2, "8") {
			w.add(pod.Obj())
		}
		s := newSessions(w, explainConf())
		var told []string
		for range 5 {
			s.cycle()
			for _, event := range w.cluster.Events.Take() {
				if strings.Contains(event, " g: ") {
					told = append(told, event)
				}
			}
			w.deliver(w.cluster.PodGroup("g"))
		}
		want := []string{"Normal Scheduled g: pod group is ready"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("events of the PodGroup (-want +got):\n%s", diff)
		}
	})
}

// TestGangsThatAreNotAdmittedGetEqualMessages checks that gangs that are not admitted get the same messages in every
// cycle, so that nothing is written again. For each gang, the repeated votes name the same plugin in any order of the
// gangs.
func TestGangsThatAreNotAdmittedGetEqualMessages(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(append(gpuNodes(1), other(), filler(0))...)
		var names []string
		for i := range 4 {
			name := fmt.Sprintf("waits%d", i)
			names = append(names, name)
			w.add(schedtest.MakePodGroup().Name(name).MinMember(1).Phase(v1beta1.PodGroupPending).Queue(fmt.Sprintf("q%d", i%2)).
				MinResources(schedtest.Resources{"nvidia.com/gpu": fmt.Sprint(2 + i/2)}).Obj())
		}
		w.add(schedtest.MakeQueue().Name("q0").Capability(schedtest.Resources{"nvidia.com/gpu": "8"}).Obj(),
			schedtest.MakeQueue().Name("q1").Capability(schedtest.Resources{"nvidia.com/gpu": "8"}).Obj())
		s := newSessions(w, explainConf("proportion", "overcommit"))
		said := func() map[string]string {
			all := map[string]string{}
			for _, name := range names {
				for _, c := range w.cluster.PodGroup(name).Status.Conditions {
					all[name] = c.Reason + ": " + c.Message
				}
			}
			return all
		}
		for range 3 {
			s.cycle()
		}
		first := said()
		if len(first) != len(names) {
			t.Errorf("%d of %d PodGroups have a reason why they wait: %v", len(first), len(names), first)
		}
		for range 10 {
			for _, name := range names {
				w.deliver(w.cluster.PodGroup(name))
			}
			s.cycle()
			if diff := cmp.Diff(first, said()); diff != "" {
				t.Errorf("nothing changed, but the messages did (-before +now):\n%s", diff)
				return
			}
		}
	})
}

// TestAPodWithoutItsPodGroupIsReported checks that a pod without its PodGroup gets a condition and an event, unless
// the PodGroup arrives a moment later.
func TestAPodWithoutItsPodGroupIsReported(t *testing.T) {
	for _, late := range []bool{true, false} {
		t.Run(fmt.Sprintf("the PodGroup comes late: %v", late), func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.add(gpuNodes(1)...)
				w.add(members(1, "1")[0].Obj())
				s := newSessions(w, explainConf())
				ssn := s.registry.OpenSession(w.cache, s.profile)
				s.registry.CloseSession(ssn)
				if late {
					w.add(schedtest.MakePodGroup().Name("g").MinMember(1).Obj())
				}
				time.Sleep(statuswriter.Settle)
				w.cluster.Events.Take()
				s.cycle()
				said := s.podSays("p0") == `PodGroupNotFound: PodGroup "g" does not exist; create it, or correct the pod's annotation scheduling.k8s.io/group-name`
				if said == late {
					t.Errorf("the pod's condition is %q", s.podSays("p0"))
				}
				told := strings.Contains(strings.Join(w.cluster.Events.Take(), "\n"), `Warning FailedScheduling p0: PodGroup "g"`)
				if told == late {
					t.Errorf("an event was recorded: %v", told)
				}
			})
		})
	}
}

// TestAGangThatIsNotAdmittedIsReportedOnce checks that a gang that is not admitted is reported once, although a
// plugin records its own event with the same reason.
func TestAGangThatIsNotAdmittedIsReportedOnce(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(nodeOf8(0).Obj(), schedtest.MakePodGroup().Name("g").MinMember(1).Phase(v1beta1.PodGroupPending).
			MinResources(schedtest.Resources{"nvidia.com/gpu": "64"}).Obj(), members(1, "1")[0].Obj())
		s := newSessions(w, explainConf("overcommit"))
		told := map[string]int{}
		for range 5 {
			s.cycle()
			for event, n := range count(w.cluster.Events.Take()) {
				told[event] += n
			}
			w.sync("p0")
			w.deliver(w.cluster.PodGroup("g"))
		}
		if len(told) != 3 {
			t.Errorf("want an event of the plugin, one of the PodGroup and one of the pod, got %v", told)
		}
		for event, n := range told {
			if n != 1 {
				t.Errorf("reported %d times: %s", n, event)
			}
		}
	})
}
