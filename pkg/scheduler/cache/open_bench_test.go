// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	vcscheduler "volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/internal/garbage"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var benchMetrics sync.Once

// fullCluster is a cache of nodes that are full of running gangs.
type fullCluster struct {
	cache *Cache
	tb    testing.TB
	nodes int
	gangs [][]*v1.Pod
	cycle int
}

const benchGang = 50

func newFullCluster(b *testing.B, nodes, pods int) *fullCluster {
	b.Helper()
	benchMetrics.Do(vcmetrics.InitKubeSchedulerRelatedMetrics)
	cluster := schedtest.NewCluster()
	c := &fullCluster{tb: b, nodes: nodes, gangs: make([][]*v1.Pod, pods/benchGang)}
	c.cache = mustWrap(b, cluster, quiet{}, func(Urgency) {})
	c.cache.changes.showQueue(schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	c.cache.changes.showQueue(schedtest.MakeQueue().Name("root").Obj())
	for i := range nodes {
		node := schedtest.MakeNode().Name(fmt.Sprintf("node-%d", i)).Capacity(schedtest.Resources{"cpu": "32", "memory": "64Gi", "pods": "110"}).Obj()
		c.cache.books.Nodes.Show(node)
	}
	for g := range c.gangs {
		pg := schedtest.MakePodGroup().Name(fmt.Sprintf("gang-%d", g)).MinMember(benchGang).Phase(v1beta1.PodGroupRunning).Obj()
		pg.Status.Running = benchGang
		if err := c.cache.sources.volcano.Scheduling().V1beta1().PodGroups().Informer().GetStore().Add(pg); err != nil {
			b.Fatal(err)
		}
		c.cache.changes.showGroup(pg)
		c.arrive(g)
		c.bind(g)
	}
	return c
}

// arrive replaces the gang's pods by pending pods.
func (c *fullCluster) arrive(g int) {
	for _, pod := range c.gangs[g] {
		c.cache.books.Pods.Hide(pod)
	}
	c.gangs[g] = nil
	for i := range benchGang {
		pod := trainingPod(c.tb, fmt.Sprintf("pod-%d-%d-%d", g, i, c.cycle), fmt.Sprintf("gang-%d", g))
		c.cache.books.Pods.Show(pod)
		c.gangs[g] = append(c.gangs[g], pod)
	}
}

// bind lets the gang's pods run.
func (c *fullCluster) bind(g int) {
	for i, pod := range c.gangs[g] {
		placed := *pod
		placed.Spec.NodeName, placed.Status.Phase = fmt.Sprintf("node-%d", (g*benchGang+i)%c.nodes), v1.PodRunning
		running := asInformed(c.tb, &placed)
		c.cache.books.Pods.Show(running)
		c.gangs[g][i] = running
	}
}

// turn makes the changes between two sessions: one gang has ended, a new one has arrived, and the one that arrived
// before is bound.
func (c *fullCluster) turn() {
	c.cycle++
	c.arrive(c.cycle % len(c.gangs))
	c.bind((c.cycle - 1) % len(c.gangs))
}

func benchProfile(b *testing.B, c *Cache) (*framework.Registry, *framework.Profile) {
	b.Helper()
	_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf(config.UpstreamConf())
	if err != nil {
		b.Fatal(err)
	}
	registry := framework.NewRegistry()
	registry.Reporter = report.NewPendingGangs(nil)
	registry.RegisterPlugin(transaction.Spec(c))
	profile, err := registry.Build(framework.ProfileInput{Tiers: append([]conf.Tier{transaction.Tier(0)}, tiers...), Configurations: configurations}, c.handle)
	if err != nil {
		b.Fatal(err)
	}
	return registry, profile
}

// timings has the measured durations, by name.
type timings map[string][]time.Duration

// of measures fn after collecting the garbage of earlier work.
func (t timings) of(name string, fn func()) {
	runtime.GC()
	began := time.Now()
	fn()
	t[name] = append(t[name], time.Since(began))
}

func (t timings) median(name string) float64 {
	slices.Sort(t[name])
	return t[name][len(t[name])/2].Seconds()
}

// sessionSizes are the clusters of BenchmarkSession. In the largest one, upstream's full copy is left out because it
// takes seconds.
var sessionSizes = []struct {
	nodes, pods int
	full        bool
}{{1000, 5000, true}, {5000, 50_000, true}, {10_000, 100_000, false}}

// BenchmarkSession opens sessions on the cache's copies of nodes and jobs, of which only changed ones are copied again.
// Except in the largest cluster, it also opens some on full copies, as upstream does. It reports the times of the first
// session and of later ones, and the memory of the objects, the books and the copies. resident-MiB is the resident
// memory of the process with the scheduler's garbage collection settings. It has a meaning only for the first case of a
// process.
func BenchmarkSession(b *testing.B) {
	for _, size := range sessionSizes {
		for _, what := range []struct {
			name    string
			between func(*fullCluster)
		}{{"unchanged", func(*fullCluster) {}}, {"changing", (*fullCluster).turn}} {
			b.Run(fmt.Sprintf("%d-%d/%s", size.nodes, size.pods, what.name), func(b *testing.B) {
				garbage.Bound()
				newOpenings(b, 1, benchGang).openFull() // Upstream's plugins hold on to the last session of the benchmark before.
				before := heap()
				s := newOpenings(b, size.nodes, size.pods)
				c := s.fullCluster
				s.open("first", c.cache)
				s.open("second", c.cache) // This session has the copies and their records.
				for range 3 {
					what.between(c)
					s.open("kept", c.cache)
				}
				resident := residentMiB()
				for b.Loop() {
					for turn := range 5 {
						what.between(c)
						s.open("kept", c.cache)
						if size.full && turn == 0 {
							what.between(c)
							s.openFull()
						}
					}
				}
				b.ReportMetric(0, "ns/op") // The time per operation has no meaning here.
				s.report(b, size.full)
				b.ReportMetric(float64(heap()-before)/(1<<20), "heap-MiB")
				b.ReportMetric(resident, "resident-MiB")
				runtime.KeepAlive(s)
			})
		}
	}
}

// openings runs the sessions of a benchmark.
type openings struct {
	*fullCluster
	registry *framework.Registry
	profile  *framework.Profile
	took     timings
}

func newOpenings(b *testing.B, nodes, pods int) *openings {
	s := &openings{fullCluster: newFullCluster(b, nodes, pods), took: timings{}}
	s.registry, s.profile = benchProfile(b, s.cache)
	return s
}

// openFull opens a session on full copies and closes it.
func (s *openings) openFull() { s.open("full", struct{ framework.Cache }{s.cache}) }

// open opens a session on the cache and closes it.
func (s *openings) open(name string, cache framework.Cache) {
	var ssn *framework.Session
	s.took.of("open-"+name, func() { ssn = s.registry.OpenSession(cache, s.profile) })
	s.took.of("close-"+name, func() { s.registry.CloseSession(ssn) })
}

// report reports the medians, and the ratio between full and cached copies.
func (s *openings) report(b *testing.B, full bool) {
	open, closed := s.took.median("open-kept"), s.took.median("close-kept")
	b.ReportMetric(s.took.median("open-first")*1000, "first-open-ms")
	b.ReportMetric(open*1000, "open-ms")
	b.ReportMetric(closed*1000, "close-ms")
	b.ReportMetric((open+closed)*1000, "open+close-ms")
	if full {
		b.ReportMetric(s.took.median("open-full")*1000, "open-full-ms")
		b.ReportMetric(s.took.median("open-full")/open, "open-full/kept")
	}
}

// heap returns the size of the heap in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // The second collection frees what the first one has only found.
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
