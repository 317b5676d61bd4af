// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// withPlugin returns simpleTiers with the plugin.
func withPlugin(name string) string {
	return strings.Replace(simpleTiers, "  - name: predicates\n", "  - name: predicates\n  - name: "+name+"\n", 1)
}

// gone reports whether the session evicted the pod.
func (o outcome) gone(pod *v1.Pod) bool { return slices.Contains(o.evicted, pod.Name) }

// without returns the cluster without the pods that the session evicted, and without the objects of the API server, which stay.
func without(w sessiontest.ClusterSpec, o outcome) sessiontest.ClusterSpec {
	w.Pods = slices.DeleteFunc(slices.Clone(w.Pods), o.gone)
	w.Objects, w.Devices = nil, nil
	return w
}

// gpus lets pods request this number of GPUs.
func gpus(n int) func(*schedtest.PodBuilder) {
	return func(p *schedtest.PodBuilder) {
		p.Limit(schedtest.Resources{"cpu": "1", "koordinator.sh/gpu": fmt.Sprint(100 * n)})
	}
}

// onOneSwitch lets pods request this number of GPUs on one PCIe switch.
func onOneSwitch(n int) func(*schedtest.PodBuilder) {
	return func(p *schedtest.PodBuilder) {
		gpus(n)(p)
		p.Annotation(v1alpha1.DeviceAllocateHintAnnotation, `{"gpu":{"requiredTopologyScope":"PCIe"}}`)
	}
}

// has lets a running pod have the GPUs with these minor numbers.
func has(minors ...int) func(*schedtest.PodBuilder) {
	var list []string
	for _, minor := range minors {
		list = append(list, fmt.Sprintf(`{"minor":%d,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}`, minor))
	}
	return func(p *schedtest.PodBuilder) {
		gpus(len(minors))(p)
		p.Annotation(v1alpha1.DeviceAllocatedAnnotation, `{"gpu":[`+strings.Join(list, ",")+`]}`)
	}
}

// withGPUs gives each node four GPUs, two on each PCIe switch.
func withGPUs(w *sessiontest.ClusterSpec) {
	api.IgnoredDevicesList.Append(allocator.UncountedNames()...) // as a scheduler does before it reads pods
	for _, node := range w.Nodes {
		device := &v1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		for minor := range int32(4) {
			device.Spec.Devices = append(device.Spec.Devices, v1alpha1.DeviceInfo{
				Type: v1alpha1.GPU, Minor: &minor, Health: true, Topology: &v1alpha1.DeviceTopology{PCIEID: fmt.Sprint(minor / 2)},
				Resources: v1.ResourceList{"koordinator.sh/gpu-core": resource.MustParse("100"), "koordinator.sh/gpu-memory-ratio": resource.MustParse("100"), "koordinator.sh/gpu-memory": resource.MustParse("80Gi")},
			})
		}
		w.Devices = append(w.Devices, device)
	}
}

// TestVictimsWithDevices checks gangs that need GPUs of other pods on node n0. Once the victims are gone, the gangs get the GPUs
// that these had. If no eviction helps, nothing is evicted, and a gang that comes later gets the GPU that is still free.
func TestVictimsWithDevices(t *testing.T) {
	later := gang{name: "later", min: 1, priority: 1, pending: 1, pod: gpus(1)}
	for name, c := range map[string]struct {
		gangs   []gang
		evicted []string
		// bound are the pods that the next session binds, with the minor numbers of their GPUs.
		bound map[string]string
	}{
		"the GPUs of the victim": {
			gangs: []gang{
				{name: "old", min: 1, priority: 1, on: each(1), pod: has(0, 1)},
				{name: "same", min: 1, priority: 9, on: each(1), pod: has(2, 3)},
				{name: "new", min: 1, priority: 9, pending: 1, pod: gpus(2)},
			},
			evicted: []string{"old-0"}, bound: map[string]string{"new-0": "0,1"},
		},
		"an idle GPU beside that of the victim": {
			gangs: []gang{
				{name: "old", min: 1, priority: 1, on: each(1), pod: has(1)},
				{name: "same", min: 1, priority: 9, on: each(1), pod: has(2, 3)},
				{name: "new", min: 2, priority: 9, pending: 2, pod: gpus(1)},
			},
			evicted: []string{"old-0"}, bound: map[string]string{"new-0": "0", "new-1": "1"},
		},
		"a switch that a victim shares with an idle GPU": {
			gangs: []gang{
				{name: "old", min: 1, priority: 1, on: each(1), pod: has(2)},
				{name: "same", min: 1, priority: 9, on: each(1), pod: has(0)},
				{name: "new", min: 1, priority: 9, pending: 1, pod: onOneSwitch(2)},
			},
			evicted: []string{"old-0"}, bound: map[string]string{"new-0": "2,3"},
		},
		"a switch of two victims, one of them dearer than a useless one": {
			gangs: []gang{
				{name: "a", min: 1, priority: 1, on: each(1), pod: has(1)},
				{name: "b", min: 1, priority: 2, on: each(1), pod: has(2)},
				{name: "c", min: 1, priority: 3, on: each(1), pod: has(3)},
				{name: "same", min: 1, priority: 9, on: each(1), pod: has(0)},
				{name: "new", min: 1, priority: 9, pending: 1, pod: onOneSwitch(2)},
			},
			evicted: []string{"b-0", "c-0"}, bound: map[string]string{"new-0": "2,3"},
		},
		"no switch gets free": {
			gangs: []gang{
				{name: "old", min: 1, priority: 1, on: each(1), pod: has(1)},
				{name: "same", min: 1, priority: 9, on: each(1), pod: has(0)},
				{name: "other", min: 1, priority: 9, on: each(1), pod: has(2)},
				{name: "new", min: 1, priority: 9, pending: 1, pod: onOneSwitch(2)},
				later,
			},
			bound: map[string]string{"later-0": "3"},
		},
		"one of two members gets no GPU": {
			gangs: []gang{
				{name: "old", min: 1, priority: 1, on: each(1), pod: has(0, 1)},
				{name: "same", min: 1, priority: 9, on: each(1), pod: has(2)},
				{name: "new", min: 2, priority: 9, pending: 2, pod: gpus(2)},
				later,
			},
			bound: map[string]string{"later-0": "3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.gangs {
				c.gangs[i].cpu = "1"
			}
			w := world(nodesOf(1, "16"), c.gangs...)
			withGPUs(&w)
			arrives := slices.ContainsFunc(c.gangs, func(g gang) bool { return g.name == later.name })
			first := w
			if arrives {
				first.Pods = w.Pods[:len(w.Pods)-1]
			}
			cl := newCluster(first, withPlugin("deviceshare"))
			defer cl.close()
			got := cl.session()
			if !slices.Equal(got.evicted, c.evicted) || len(got.bound) > 0 {
				t.Fatalf("evicted %v and bound %v, want %v and none; reason: %s", got.evicted, got.bound, c.evicted, got.reasons["new"])
			}
			cl.Load(without(w, got))
			next := cl.session()
			if diff := cmp.Diff(c.bound, next.minors()); diff != "" {
				t.Errorf("GPUs of the pods that are bound then (-want +got):\n%s\nreasons: %v", diff, next.reasons)
			}
		})
	}
}

// minors returns the minor numbers of the GPUs of the pods that the session bound.
func (o outcome) minors() map[string]string {
	all := map[string]string{}
	for name, annotation := range o.devices {
		var minors []string
		for _, part := range strings.Split(annotation, `"minor":`)[1:] {
			minors = append(minors, part[:1])
		}
		slices.Sort(minors)
		all[name] = strings.Join(minors, ",")
	}
	return all
}

// TestAHostPortIsReleased checks gangs whose members need port 80 of a node. Nodes have enough CPUs for all pods.
func TestAHostPortIsReleased(t *testing.T) {
	web := func(p *schedtest.PodBuilder) { p.HostPort(80) }
	for name, c := range map[string]struct {
		gangs     []gang
		evicted   []string
		pipelined map[string]string
	}{
		"by the pod that has it": {
			gangs: []gang{
				{name: "quiet", min: 1, priority: 1, on: []string{"n0", "n1"}},
				{name: "web", min: 1, priority: 2, on: []string{"n0"}, pod: web},
				{name: "same", min: 1, priority: 9, on: []string{"n1"}, pod: web},
				{name: "new", min: 1, priority: 9, pending: 1, pod: web},
			},
			evicted: []string{"web-0"}, pipelined: map[string]string{"new-0": "n0"},
		},
		"by a pod for each member": {
			gangs: []gang{
				{name: "web", min: 1, priority: 1, on: []string{"n0", "n1"}, pod: web},
				{name: "new", min: 2, priority: 9, pending: 2, pod: web},
			},
			evicted: []string{"web-0", "web-1"}, pipelined: map[string]string{"new-0": "n0", "new-1": "n1"},
		},
		"by nobody if one member gets none, and then for the next gang": {
			gangs: []gang{
				{name: "web", min: 1, priority: 1, on: []string{"n0"}, pod: web},
				{name: "same", min: 1, priority: 9, on: []string{"n1"}, pod: web},
				{name: "a", min: 2, priority: 9, pending: 2, pod: web},
				{name: "new", min: 1, priority: 9, pending: 1, pod: web},
			},
			evicted: []string{"web-0"}, pipelined: map[string]string{"new-0": "n0"},
		},
		"by nobody": {
			gangs: []gang{
				{name: "quiet", min: 1, priority: 1, on: []string{"n0", "n1"}},
				{name: "same", min: 1, priority: 9, on: []string{"n0", "n1"}, pod: web},
				{name: "new", min: 1, priority: 9, pending: 1, pod: web},
			},
			pipelined: map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.gangs {
				c.gangs[i].cpu = "1"
			}
			got := runWith(t, world(nodesOf(2, "16"), c.gangs...), simpleTiers)
			if !slices.Equal(got.evicted, c.evicted) {
				t.Errorf("evicted %v, want %v; reason: %s", got.evicted, c.evicted, got.reasons["new"])
			}
			pods, nodes := slices.Sorted(maps.Keys(got.pipelined)), slices.Sorted(maps.Values(got.pipelined))
			if !slices.Equal(pods, slices.Sorted(maps.Keys(c.pipelined))) || !slices.Equal(nodes, slices.Sorted(maps.Values(c.pipelined))) {
				t.Errorf("members wait on %v, want %v", got.pipelined, c.pipelined)
			}
		})
	}
}
