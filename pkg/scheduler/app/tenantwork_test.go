// SPDX-License-Identifier: Apache-2.0

//go:build !race

package app

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const workConf = `
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}, {name: ibcluster}]
`

const (
	workNodes, workPods = 24, 16
	// workCycles is the number of cycles with the same findings. Only the first few cycles report them.
	workCycles = 20
	// measuredCycles is the number of cycles that are measured. The smallest work counts.
	measuredCycles = 3
	// workNoise is how far a cycle's work may exceed linear growth, since maps and slices double.
	workNoise = 1.6
	// mostOfHead is the maximum length of a log line without its message: time, source and object.
	mostOfHead = 176
)

// work is the work of a cycle in measures that do not depend on the machine: allocations, and their bytes.
type work struct{ allocations, bytes uint64 }

// least is the work of a cycle without a tenant's input. Smaller amounts are ignored.
var least = work{allocations: 15_000, bytes: 3 << 20}

// tenantRun is a scheduler with a gang that fits in part, and a tenant's input of some size.
type tenantRun struct {
	t       *testing.T
	in      tenantInput
	cluster *schedtest.Cluster
	s       *scheduler
	// started is the number of pods of another tenant that have started.
	started int
}

func newTenantRun(t *testing.T, in tenantInput, n int) *tenantRun {
	t.Helper()
	cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	for i := range workNodes {
		name := fmt.Sprint("n", i)
		capacity := schedtest.Resources{"cpu": "8", "memory": "100Gi", "pods": "110"}
		if i%2 == 0 {
			capacity["cpu"] = "4"
		}
		cluster.Put(schedtest.MakeNode().Name(name).Capacity(capacity).Label("zone", fmt.Sprint(i%4)).Label(v1.LabelHostname, name).Obj())
	}
	pg := schedtest.MakePodGroup().Name("t").MinMember(workPods).Phase(v1beta1.PodGroupPending).Obj()
	if in.group != nil {
		in.group(pg, n)
	}
	cluster.Put(pg)
	for i := range workPods {
		pod := schedtest.MakePod().Name(fmt.Sprint("t", i)).Group("t").Role("a").Label("member", fmt.Sprint(i)).Req(schedtest.Resources{"cpu": "6"}).Obj()
		if in.pod != nil {
			in.pod(pod, n)
		}
		cluster.Put(pod)
	}
	if in.more != nil {
		in.more(cluster, n)
	}
	return &tenantRun{t: t, in: in, cluster: cluster, s: newTestScheduler(t, cluster, loaded(t, workConf))}
}

// beforeCycle starts a pod of another tenant if changing is set, and waits until the scheduler knows it.
func (r *tenantRun) beforeCycle() {
	if !r.in.changing {
		return
	}
	name := fmt.Sprint("n", r.started%workNodes)
	tasks := func() int { return len(r.s.cache.Snapshot().Nodes[name].Tasks) }
	before := tasks()
	r.cluster.Put(schedtest.MakePod().Name(fmt.Sprint("starts-", r.started)).Scheduler("default-scheduler").Req(schedtest.Resources{"cpu": "10m"}).
		Node(name).Phase(v1.PodRunning).Obj())
	eventually(r.t, func() bool { return tasks() > before })
	r.started++
}

// work returns the smallest work of a few cycles, because other work of the process adds to each measurement.
func (r *tenantRun) work() work {
	r.beforeCycle()
	r.s.cycle()
	least := work{allocations: 1 << 62, bytes: 1 << 62}
	for range measuredCycles {
		r.beforeCycle()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.s.cycle()
		runtime.ReadMemStats(&after)
		least.allocations = min(least.allocations, after.Mallocs-before.Mallocs)
		least.bytes = min(least.bytes, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// worksLike checks that a cycle with the largest input does at most four times the work some, with a margin
// (workNoise). some is the work with n elements, a quarter of the elements that the scheduler accepts. The largest
// input has most elements. worksLike measures several times before it fails, because other work on a busy machine adds
// to each figure. It returns the number of cycles that it ran.
func (r *tenantRun) worksLike(some work, n, most int) (cycles int) {
	r.t.Helper()
	var much work
	for cycles = 0; cycles+measuredCycles < workCycles; cycles += 1 + measuredCycles {
		if much = r.work(); much.within(some, 4*workNoise) {
			return cycles + 1 + measuredCycles
		}
	}
	r.t.Errorf("with %d a cycle does %+v, with %d %+v", n, some, most, much)
	return cycles
}

// TestACyclesWorkIsLinearInATenantsInput checks that a cycle's work grows at most linearly with a tenant's input, up to
// the API server's limits. Otherwise all other tenants would wait. The test counts allocations, which the race detector
// changes, so `make test-unit` runs it without.
func TestACyclesWorkIsLinearInATenantsInput(t *testing.T) {
	logged := captureLog(t)
	inputs := maps.Clone(groupInputs)
	maps.Copy(inputs, podInputs)
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in := inputs[name]
		t.Run(name, func(t *testing.T) {
			var some work
			t.Run("some", func(t *testing.T) { some = newTenantRun(t, in, in.fits/4).work() })
			t.Run("all", func(t *testing.T) {
				r := newTenantRun(t, in, in.fits)
				r.worksLike(some, in.fits/4, in.fits)
				for _, c := range r.cluster.PodGroup("t").Status.Conditions {
					if c.Reason == quarantine.ObjectTooLarge {
						t.Errorf("the scheduler does not take %d: %s", in.fits, c.Message)
					}
				}
			})
			if in.most > 0 {
				t.Run("too much", func(t *testing.T) {
					r := newTenantRun(t, in, in.most)
					cycles := r.worksLike(some, in.fits/4, in.most)
					r.staysBrief(workCycles - cycles)
				})
			}
			logged.brief(t)
		})
	}
}

// within reports whether the work is at most the given multiple of the other.
func (w work) within(other work, times float64) bool {
	return float64(w.allocations) <= times*float64(max(other.allocations, least.allocations)) &&
		float64(w.bytes) <= times*float64(max(other.bytes, least.bytes))
}

// staysBrief runs more cycles with the same findings, which must not be reported again, and checks that all messages
// are short enough.
func (r *tenantRun) staysBrief(cycles int) {
	r.t.Helper()
	for range cycles {
		r.s.cycle()
	}
	told := map[string]int{}
	for _, event := range r.cluster.Events.Take() {
		head, message, _ := strings.Cut(event, ": ")
		told[head]++
		r.brief("event "+head, message)
	}
	for head, times := range told {
		if times > 3 {
			r.t.Errorf("%d events in %d cycles: %s", times, workCycles, head)
		}
	}
	for _, c := range r.cluster.PodGroup("t").Status.Conditions {
		r.brief("condition of the PodGroup", c.Message)
	}
	for i := range workPods {
		for _, c := range r.cluster.Pod(fmt.Sprint("t", i)).Status.Conditions {
			r.brief("condition of a pod", c.Message)
		}
	}
	if writes := len(r.cluster.Writes()); writes > 3*(workPods+1) {
		r.t.Errorf("%d writes in %d cycles", writes, workCycles)
	}
}

func (r *tenantRun) brief(what, message string) {
	r.t.Helper()
	if len(message) > brief.Most {
		r.t.Errorf("%s has %d bytes: %.200s", what, len(message), message)
	}
}

// captured has the length of the longest line of each log statement.
type captured struct {
	mu      sync.Mutex
	longest map[string]int
}

func (c *captured) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	head, _, _ := bytes.Cut(p, []byte("]"))
	place := string(head[bytes.LastIndexByte(head, ' ')+1:])
	c.longest[place] = max(c.longest[place], len(p))
	return len(p), nil
}

// captureLog redirects the log for the rest of the process, because informers that log may still be stopping when the
// test ends.
func captureLog(t *testing.T) *captured {
	c := &captured{longest: map[string]int{}}
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(c)
	return c
}

// brief checks that no logged line is longer than a message may be (brief.Most) plus the part before it (mostOfHead).
func (c *captured) brief(t *testing.T) {
	t.Helper()
	klog.Flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	for place, length := range c.longest {
		if length > brief.Most+mostOfHead {
			t.Errorf("a line of %d bytes was logged at %s", length, place)
		}
	}
	clear(c.longest)
}
