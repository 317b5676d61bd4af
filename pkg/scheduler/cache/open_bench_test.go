package cache

import (
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	vcscheduler "volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const benchConf = `
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
`

var benchMetrics sync.Once

// crowd is a cache of nodes that are full of running gangs of 50.
func crowd(b *testing.B, nodes, pods int) *Cache {
	b.Helper()
	benchMetrics.Do(vcmetrics.InitKubeSchedulerRelatedMetrics)
	cluster := schedtest.NewCluster()
	c := Wrap(cluster.Cache, cluster.Kube, cluster.Volcano, []string{schedtest.SchedulerName}, 0, quiet{}, func(Urgency) {})
	c.AddQueueV1beta1(schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	c.AddQueueV1beta1(schedtest.MakeQueue().Name("root").Obj())
	for i := range nodes {
		node := schedtest.MakeNode().Name(fmt.Sprintf("node-%d", i)).Capacity(schedtest.Resources{"cpu": "32", "memory": "64Gi", "pods": "110"}).Obj()
		if err := c.AddOrUpdateNode(node); err != nil {
			b.Fatal(err)
		}
	}
	store := func(i cache.SharedIndexInformer, object any) {
		if err := i.GetStore().Add(object); err != nil {
			b.Fatal(err)
		}
	}
	for i := range pods {
		group := fmt.Sprintf("gang-%d", i/50)
		if i%50 == 0 {
			pg := schedtest.MakePodGroup().Name(group).MinMember(50).Phase(v1beta1.PodGroupRunning).Obj()
			pg.Status.Running = 50
			store(c.vcFactory.Scheduling().V1beta1().PodGroups().Informer(), pg)
			c.AddPodGroupV1beta1(pg)
		}
		c.AddPod(schedtest.MakePod().Name(fmt.Sprintf("pod-%d", i)).Group(group).Req(schedtest.Resources{"cpu": "1", "memory": "1Gi"}).
			Node(fmt.Sprintf("node-%d", i%nodes)).Phase(v1.PodRunning).Obj())
	}
	return c
}

func benchProfile(b *testing.B, c *Cache) (*framework.Registry, *framework.Profile) {
	b.Helper()
	_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf(benchConf)
	if err != nil {
		b.Fatal(err)
	}
	registry := framework.NewRegistry()
	registry.RegisterPlugin(transaction.Spec(c))
	profile, err := registry.Build(framework.ProfileInput{Tiers: append([]conf.Tier{transaction.Tier(0)}, tiers...), Configurations: configurations}, c)
	if err != nil {
		b.Fatal(err)
	}
	return registry, profile
}

func BenchmarkSession(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{1000, 5000}, {5000, 50000}} {
		b.Run(fmt.Sprintf("%d-%d", size.nodes, size.pods), func(b *testing.B) {
			c := crowd(b, size.nodes, size.pods)
			registry, profile := benchProfile(b, c)
			for _, side := range []struct {
				name  string
				cache framework.Cache
			}{{"full", struct{ framework.Cache }{c}}, {"kept", c}} {
				b.Run("open-"+side.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						ssn := registry.OpenSession(side.cache, profile)
						b.StopTimer()
						registry.CloseSession(ssn)
						b.StartTimer()
					}
				})
			}
			b.Run("snapshot-kept", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.SessionSnapshot()
				}
			})
			b.Run("close", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					ssn := registry.OpenSession(c, profile)
					b.StartTimer()
					registry.CloseSession(ssn)
				}
			})
		})
	}
}
