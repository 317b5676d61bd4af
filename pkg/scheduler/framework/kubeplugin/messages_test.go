// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestMessages compares the errors of plugins that cannot be adapted, which stop the scheduler or reject a
// configuration. It also compares the PodGroup's message when an adapted plugin refuses a node.
func TestMessages(t *testing.T) {
	cluster := sessiontest.New(gangOf(1, 1, 1))
	defer cluster.Close()
	build := func(plugin k8sframework.Plugin, err error, opts ...Option) string {
		_, got := New(slotsName, cluster.Handle(), func(k8sframework.Handle) (k8sframework.Plugin, error) { return plugin, err }, opts...)
		return fmt.Sprint(got)
	}
	_, panicked := New(slotsName, cluster.Handle(), func(k8sframework.Handle) (k8sframework.Plugin, error) { panic("oh no") })
	// waits returns the reason why a gang of one pod waits.
	waits := func(s *slots) string {
		w := place(t, s, conf, gangOf(1, 1, 1))
		defer w.session.Close()
		return w.session.Jobs["ns/g"].JobFitErrors
	}
	room := map[string]int{"n1": 1}
	answers := func(point string, status *fwk.Status) *slots {
		return &slots{perNode: room, says: when(point, "", "", status)}
	}
	// late returns the error of a pod's step when the plugin has no reservation for the pod.
	late := func() string {
		w, r := transact(t, &slots{}, fateOf(2), nil)
		return fmt.Sprint(w.adapted.PreBind(t.Context(), r.Bound[0].Task, r.Bound[0].Node))
	}
	got := map[string]string{
		"a plugin with Permit":          build(&permits{}, nil),
		"a plugin with Bind":            build(&binds{}, nil),
		"a plugin with QueueSort":       build(&sorts{}, nil),
		"a plugin without a point":      build(idle{}, nil),
		"no plugin":                     build(nil, nil),
		"an error":                      build(nil, errBroken),
		"a panic":                       fmt.Sprint(panicked),
		"a weight":                      build(&slots{}, nil, WithWeight(-1)),
		"Filter refuses":                waits(&slots{}),
		"Filter refuses without a word": waits(answers("filter", fwk.NewStatus(fwk.Unschedulable))),
		"Filter fails":                  waits(answers("filter", fwk.AsStatus(errBroken))),
		"PreFilter refuses":             waits(answers("prefilter", fwk.NewStatus(fwk.Unschedulable, "the licence has expired"))),
		"PreFilter allows other nodes":  waits(&slots{perNode: room, only: []string{"n2"}}),
		"Reserve refuses":               waits(answers("reserve", fwk.NewStatus(fwk.Unschedulable, "the licence has expired"))),
		"PreBind without a reservation": late(),
	}
	const uncalled = ", which is not called, because gangs are decided as a whole; use a plugin without it"
	want := map[string]string{
		"a plugin with Permit":          "plugin slots: kube-scheduler's plugin Slots implements Permit" + uncalled,
		"a plugin with Bind":            "plugin slots: kube-scheduler's plugin Slots implements Bind" + uncalled,
		"a plugin with QueueSort":       "plugin slots: kube-scheduler's plugin Slots implements QueueSort" + uncalled,
		"a plugin without a point":      "plugin slots: kube-scheduler's plugin Idle implements no supported extension point, must implement one of PreEnqueue, PreFilter, Filter, PreScore, Score, Reserve, PreBind, PostBind",
		"no plugin":                     "plugin slots: the factory returned no plugin",
		"an error":                      "plugin slots: it is broken",
		"a panic":                       "plugin slots: its constructor panicked: oh no",
		"a weight":                      "plugin slots: weight is -1, must be from 0 to 1000000",
		"Filter refuses":                "0/1 members fit: 1 node no slot is free",
		"Filter refuses without a word": "0/1 members fit: 1 node refused by plugin slots (Unschedulable)",
		"Filter fails":                  "0/1 members fit: 1 node it is broken",
		"PreFilter refuses":             "the licence has expired",
		"PreFilter allows other nodes":  "0/1 members fit: 1 node not allowed by plugin slots",
		"Reserve refuses":               "0/1 members fit: 1 node refused by plugin slots: the licence has expired",
		"PreBind without a reservation": "the plugin's reservation for the pod was released before the bind",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
