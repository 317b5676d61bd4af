// SPDX-License-Identifier: Apache-2.0

package books

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func sized(requests schedtest.Resources) *schedtest.PodBuilder {
	return schedtest.MakePod().Name("p").Group("g").Req(requests)
}

func reserveOn(b *Books, placed *v1.Pod, node string) error {
	return b.Pods.Reserve(api.NewTaskInfo(placed), node, func(*api.TaskInfo) (Reservation, error) {
		return Reservation{Owner: "owner", NUMA: &api.TopologyInfo{}}, nil
	})
}

// TestAResizedPodCountsAsReserved checks that a pod that is resized, to more or to less, counts with its reserved
// amount from its reservation until the watch shows it on a node. The informer's object is not written to.
func TestAResizedPodCountsAsReserved(t *testing.T) {
	for _, size := range []string{"500m", "1", "700"} {
		t.Run(size, func(t *testing.T) {
			b := newBooks(t)
			pod, resized := sized(schedtest.Resources{"cpu": "1"}).Obj(), sized(schedtest.Resources{"cpu": size}).Obj()
			requested := resized.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			b.Pods.Show(pod)
			if err := reserveOn(b, pod, "n"); err != nil {
				t.Fatal(err)
			}
			counts := func(when string, inGang, onNode float64) {
				t.Helper()
				task, used := b.Pods.Task(api.PodKey(pod), pod.UID), b.Nodes.Get("n").Used.MilliCPU
				if got := task.InitResreq.MilliCPU; got != inGang || task.Resreq.MilliCPU != inGang || used != onNode {
					t.Errorf("%s, the pod counts with %v milli-cpu in its gang and %v on its node, want %v and %v", when, got, used, inGang, onNode)
				}
				if got := task.Pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); float64(got) != inGang {
					t.Errorf("%s, the task's pod requests %v milli-cpu, want %v", when, got, inGang)
				}
			}
			b.Pods.Show(resized)
			counts("resized before its Binding", 1000, 1000)
			b.Pods.Release(api.PodKey(pod), "owner")
			counts("released", float64(requested), 0)
			b.Pods.Show(pod)
			if err := reserveOn(b, pod, "n"); err != nil {
				t.Fatal(err)
			}
			b.Pods.Bind(api.PodKey(pod), "owner")
			b.Pods.Show(resized)
			counts("resized after its Binding", 1000, 1000)
			bound := resized.DeepCopy()
			bound.Spec.NodeName = "n"
			b.Pods.Show(bound)
			counts("shown on its node", float64(requested), float64(requested))
			if got := resized.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); got != requested {
				t.Error("the informer's object was written to")
			}
		})
	}
}

// TestAResizedSidecarCountsAsReserved checks that a pod counts with its reserved amount if one of its sidecars is
// resized. Grown includes sidecars, too.
func TestAResizedSidecarCountsAsReserved(t *testing.T) {
	b := newBooks(t)
	pod := sized(schedtest.Resources{"cpu": "1"}).Obj()
	pod.Spec.InitContainers = []v1.Container{{Name: "sidecar", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
	b.Pods.Show(pod)
	if err := reserveOn(b, pod, "n"); err != nil {
		t.Fatal(err)
	}
	resized := pod.DeepCopy()
	resized.Spec.InitContainers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
	b.Pods.Show(resized)
	if got := b.Nodes.Get("n").Used.MilliCPU; got != 1000 {
		t.Errorf("the pod counts with %v milli-cpu, want the 1000 that were reserved", got)
	}
	if _, err := b.Pods.Grown(resized); err == nil || !strings.Contains(err.Error(), "cpu (3 requested, 1 reserved)") {
		t.Errorf("error %v, want one that says how much more the pod requests", err)
	}
}

// TestGrown checks which changes of a pod exceed the reservation of its transaction.
func TestGrown(t *testing.T) {
	tests := map[string]struct {
		now  *schedtest.PodBuilder
		want string
	}{
		"unchanged":                 {now: sized(schedtest.Resources{"cpu": "1"})},
		"smaller":                   {now: sized(schedtest.Resources{"cpu": "500m"})},
		"larger":                    {now: sized(schedtest.Resources{"cpu": "7"}), want: "pod ns/p was resized before it was bound: cpu (7 requested, 1 reserved)"},
		"of more resources":         {now: sized(schedtest.Resources{"cpu": "1", "memory": "1Gi"}), want: "memory (1Gi requested, 0 reserved)"},
		"less of one, more of one":  {now: sized(schedtest.Resources{"cpu": "500m", "memory": "1Gi"}), want: "memory (1Gi requested, 0 reserved)"},
		"another pod of its name":   {now: sized(schedtest.Resources{"cpu": "7"}).UID("another")},
		"bound by another client":   {now: sized(schedtest.Resources{"cpu": "7"}).Node("n")},
		"a pod without reservation": {now: sized(schedtest.Resources{"cpu": "7"}).Name("other")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			pod := sized(schedtest.Resources{"cpu": "1"}).Obj()
			b.Pods.Show(pod)
			if err := reserveOn(b, pod, "n"); err != nil {
				t.Fatal(err)
			}
			of, err := b.Pods.Grown(tt.now.Obj())
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || of != gang):
				t.Errorf("error %v of gang %q, want one of gang %s that says %q", err, of, gang, tt.want)
			}
		})
	}
}

// TestAPodThatGrewSinceItWasPlacedIsNotReserved checks that a pod is not reserved if it requests more than when it was
// placed, because the session compared the former request with the limits of the queue. A pod that requests less is
// reserved.
func TestAPodThatGrewSinceItWasPlacedIsNotReserved(t *testing.T) {
	tests := map[string]struct{ size, want string }{
		"unchanged": {size: "2"},
		"smaller":   {size: "1"},
		"larger":    {size: "3", want: "the pod was resized after it was placed: cpu (3 requested, 2 when it was placed)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			b.Pods.Show(sized(schedtest.Resources{"cpu": tt.size}).Obj())
			err := reserveOn(b, sized(schedtest.Resources{"cpu": "2"}).Obj(), "n")
			if got := errorText(err); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
