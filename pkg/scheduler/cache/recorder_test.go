// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	vcscheduler "volcano.sh/volcano/pkg/scheduler"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestRecorderDropsRepetitions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := pod(0).Obj(), pod(1).Obj()
		for range 2 {
			w.Recorder.Event(a, v1.EventTypeWarning, "Unschedulable", "no room, 100% taken")
			w.Recorder.Eventf(a, v1.EventTypeWarning, "Unschedulable", "no room, 100% taken")
			w.Recorder.Eventf(b, v1.EventTypeWarning, "Unschedulable", "no room on %d nodes", 3)
			w.Recorder.AnnotatedEventf(b, nil, v1.EventTypeWarning, "Other", "no room on %d nodes", 3)
			w.Recorder.Event(a, v1.EventTypeWarning, "Evict", "preempted")
		}
		w.Recorder.Event(a, v1.EventTypeWarning, "Unschedulable", "no room at all")
		want := []string{
			"Warning Unschedulable p0: no room, 100% taken",
			"Warning Unschedulable p1: no room on 3 nodes",
			"Warning Other p1: no room on 3 nodes",
			"Warning Evict p0: preempted",
			"Warning Evict p0: preempted",
			"Warning Unschedulable p0: no room at all",
		}
		if diff := cmp.Diff(want, w.cluster.Events.Take()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestSessionsTellPodGroupsOnce: what a plugin finds in every session, and records in every session, becomes one event
// until it changes, with the text as the plugin gave it.
func TestSessionsTellPodGroupsOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		registry := framework.NewRegistry()
		registry.RegisterPlugin(ibcluster.Spec())
		_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf("actions: allocate\ntiers:\n- plugins:\n  - name: ibcluster\n")
		if err != nil {
			t.Fatal(err)
		}
		profile, err := registry.Build(framework.ProfileInput{Tiers: tiers, Configurations: configurations}, w.Cache)
		if err != nil {
			t.Fatal(err)
		}
		node := func(name string) *schedtest.NodeBuilder {
			return schedtest.MakeNode().Name(name).Label("ibcluster", "ib-"+name)
		}
		group := func(name, annotation, value string) *schedtest.PodGroupBuilder {
			return schedtest.MakePodGroup().Name(name).MinMember(1).Annotation(annotation, value)
		}
		member := func(group, name string) *schedtest.PodBuilder {
			return schedtest.MakePod().Name(name).Group(group).Req(schedtest.Resources{"cpu": "1"})
		}
		w.add(node("a").Obj(), node("b").Obj(),
			group("wrong", ibcluster.LevelAnnotation, "50%off").Obj(), member("wrong", "w").Obj(),
			group("split", ibcluster.ModeAnnotation, "required").Obj(), member("split", "s").Obj(),
			member("split", "s1").Node("a").Phase(v1.PodRunning).Obj(), member("split", "s2").Node("b").Phase(v1.PodRunning).Obj())
		session := func() {
			ssn := registry.OpenSession(w.Cache, profile)
			defer registry.CloseSession(ssn)
			if _, err := ssn.NodeGroups(ssn.Jobs[schedtest.Namespace+"/split"]); err != nil {
				t.Error(err)
			}
		}
		expect := func(step string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, w.cluster.Events.Take()); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", step, diff)
			}
		}
		session()
		expect("at first",
			`Warning IBClusterAnnotationInvalid wrong: annotation ibcluster.volcano-prebind.io/level: found "50%off", want the name of a level: "ibcluster" or "spine" or "leaf"`,
			"Warning IBClusterSplit split: members of the gang are in ib-a (1), ib-b (1); others go to ib-a, where most are")
		session()
		session()
		expect("nothing changed")
		w.add(group("wrong", ibcluster.LevelAnnotation, "100%on").Obj(), member("split", "s3").Node("b").Phase(v1.PodRunning).Obj())
		session()
		session()
		expect("both changed",
			`Warning IBClusterAnnotationInvalid wrong: annotation ibcluster.volcano-prebind.io/level: found "100%on", want the name of a level: "ibcluster" or "spine" or "leaf"`,
			"Warning IBClusterSplit split: members of the gang are in ib-a (1), ib-b (2); others go to ib-b, where most are")
	})
}

// slowOutlet keeps what it is sent until the test says what became of it.
type slowOutlet struct {
	messages []string
	done     []func(there bool)
}

func (o *slowOutlet) send(e notice, done func(there bool)) {
	o.messages, o.done = append(o.messages, e.message), append(o.done, done)
}

// TestWhatBecomesOfAnEventIsKnownLater: by then the object may have been told something else.
func TestWhatBecomesOfAnEventIsKnownLater(t *testing.T) {
	tests := map[string]struct {
		story func(tell func(message string), again func(message string), o *slowOutlet)
		want  []string
	}{
		"it is lost, and a newer one is not": {
			story: func(tell, _ func(string), o *slowOutlet) {
				tell("no room")
				tell("no node")
				o.done[0](false)
				tell("no node")
			},
			want: []string{"no room", "no node"},
		},
		"it is read for its lifetime from when it was written": {
			story: func(tell, _ func(string), o *slowOutlet) {
				tell("no room")
				time.Sleep(eventLifetime / 2)
				o.done[0](true)
				time.Sleep(eventLifetime - time.Second)
				tell("no room")
			},
			want: []string{"no room"},
		},
		"it is lost, and told again to pods that wait": {
			story: func(tell, again func(string), o *slowOutlet) {
				tell("no room")
				o.done[0](false)
				again("no room")
				again("no room")
			},
			want: []string{"no room", "no room"},
		},
		"it is not told again when another has been told since": {
			story: func(tell, again func(string), _ *slowOutlet) {
				tell("no room")
				tell("no node")
				again("no room")
			},
			want: []string{"no room", "no node"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &slowOutlet{}
				r := newRecorder(o)
				p := pod(0).Obj()
				tt.story(func(message string) {
					r.Event(p, v1.EventTypeWarning, "FailedScheduling", message)
				}, func(message string) {
					r.again(p, notice{object: p, eventType: v1.EventTypeWarning, reason: "FailedScheduling", message: message})
				}, o)
				if diff := cmp.Diff(tt.want, o.messages); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
