// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func cpus(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

func asking(namespace, name, queue string, needs v1.ResourceList, phase v1beta1.PodGroupPhase) *v1beta1.PodGroup {
	group := schedtest.MakePodGroup().Name(name).Queue(queue).Phase(phase).MinMember(100).Obj()
	group.Namespace, group.Spec.MinResources = namespace, &needs
	return group
}

type infeasible api.JobID

func (infeasible) RefuseAdmission(*api.JobInfo) *framework.PendingReason { return nil }

func (gang infeasible) Infeasible(job *api.JobInfo) bool { return job.UID == api.JobID(gang) }

// TestAdmittedGangsLimitTheirNamespace checks whether gang w is admitted if gang g of namespace ns in queue q is
// already admitted. The node has 8 cpus and 8 GPUs. Queue q may use 4 cpus, and its parent queue 5. The fake plugin
// capacity itself refuses no gang.
func TestAdmittedGangsLimitTheirNamespace(t *testing.T) {
	const (
		ofQueue   = "not admitted: admitted gangs of namespace ns already wait for cpu 2 of 4 in the capability of queue q, and minResources asks for 3"
		ofParent  = "not admitted: admitted gangs of namespace ns already wait for cpu 2 of 5 in the capability of queue parent, and minResources asks for 4"
		ofCluster = "not admitted: admitted gangs of namespace ns already wait for cpu 6 of 8 in the cluster, and minResources asks for 3"

		ofGPUs   = "not admitted: admitted gangs of namespace ns already wait for nvidia.com/gpu 2 of 8 in the cluster, and minResources asks for 8"
		ofNoGPUs = "not admitted: admitted gangs of namespace ns already wait for nvidia.com/gpu 2 of 0 in the capability of queue no-gpus, and minResources asks for 2"

		ofFactor        = "not admitted: admitted gangs of namespace ns already wait for cpu 6 of 16 in the cluster with overcommit-factor 2, and minResources asks for 11"
		ofDefaultFactor = "not admitted: admitted gangs of namespace ns already wait for cpu 6 of 9600m in the cluster with overcommit-factor 1.2, and minResources asks for 4"

		ofThird = "not admitted: admitted gangs of namespace ns already wait for cpu 6 of 8 in the cluster, and minResources asks for 6"

		gw = `["ns/g","ns/w"]`
	)
	pods := v1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("2")}
	two, quota := cpus("2"), v1.ResourceList{"cpu": resource.MustParse("2"), "limits.example.com/gpu": resource.MustParse("2")}
	gpus, eight := v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}, v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	pod := func(cpu string) *schedtest.PodBuilder {
		return schedtest.MakePod().Name("g-0").Group("g").Req(schedtest.Resources{"cpu": cpu})
	}
	tests := map[string]struct {
		// has are the minResources of gang g. in is the queue of g; empty means q. If now is true, g is admitted in the
		// same session, before w is.
		has v1.ResourceList
		in  string
		now bool
		pod *schedtest.PodBuilder
		// asks, namespace and queue are the minResources, namespace and queue of gang w.
		asks             v1.ResourceList
		namespace, queue string
		nested           bool
		// plugin is the plugin that limits admissions; empty means capacity. off disables its vote. factor is its
		// overcommit-factor.
		plugin string
		off    bool
		factor float64
		// groups are the gang groups of g and w.
		groups [2]string
		// phase is the phase of g; empty means Inqueue. third are the minResources of a third gang, which is admitted
		// to queue free. never reports whether g can never fit the cluster.
		phase v1beta1.PodGroupPhase
		third v1.ResourceList
		never bool
		want  string
	}{
		"up to the capability":                        {has: two, asks: two},
		"more than the capability":                    {has: two, asks: cpus("3"), want: ofQueue},
		"more than the capability, in one session":    {has: two, asks: cpus("3"), now: true, want: ofQueue},
		"another namespace":                           {has: two, asks: cpus("3"), namespace: "others"},
		"another queue":                               {has: two, asks: cpus("8"), queue: "other"},
		"up to the parent's":                          {has: two, asks: cpus("3"), queue: "other", nested: true},
		"more than the parent's":                      {has: two, asks: cpus("4"), queue: "other", nested: true, want: ofParent},
		"more than the cluster":                       {has: cpus("6"), in: "free", asks: cpus("3"), queue: "free", want: ofCluster},
		"a capability of 0 cpu, which does not count": {has: cpus("6"), in: "zero", asks: cpus("3"), queue: "zero", want: ofCluster},
		"a quota that no node has":                    {has: quota, asks: quota},
		"a resource that no gang waits for":           {has: two, asks: gpus},
		"GPUs in a queue that does not limit them":    {has: gpus, asks: gpus},
		"more GPUs than the cluster":                  {has: gpus, asks: eight, want: ofGPUs},
		"a capability of 0 GPUs":                      {has: gpus, in: "no-gpus", asks: gpus, queue: "no-gpus", want: ofNoGPUs},
		"nothing":                                     {has: two, asks: v1.ResourceList{}},
		"without a plugin that limits it":             {has: two, asks: cpus("3"), plugin: "drf"},
		"a plugin that does not vote":                 {has: two, asks: cpus("3"), off: true},
		"proportion":                                  {has: two, asks: cpus("3"), plugin: "proportion", want: ofQueue},
		"overcommit":                                  {has: two, asks: cpus("3"), plugin: "overcommit", want: ofQueue},
		"overcommit, up to the factor":                {has: cpus("6"), in: "free", asks: cpus("10"), queue: "free", plugin: "overcommit", factor: 2},
		"overcommit, more than the factor":            {has: cpus("6"), in: "free", asks: cpus("11"), queue: "free", plugin: "overcommit", factor: 2, want: ofFactor},
		"overcommit, more than the default factor":    {has: cpus("6"), in: "free", asks: cpus("4"), queue: "free", plugin: "overcommit", want: ofDefaultFactor},
		"a capability above the cluster":              {has: cpus("6"), in: "large", asks: cpus("3"), queue: "large", want: ofCluster},
		"more of a resource that no gang waits for":   {has: two, asks: v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Pi")}},
		"more pods than the capability":               {has: pods, in: "large", asks: pods, queue: "large"},
		"the gang group of the admitted gang":         {has: two, asks: cpus("3"), groups: [2]string{gw, gw}},
		"a gang group of which a gang runs":           {has: two, asks: cpus("6"), in: "other", queue: "free", phase: v1beta1.PodGroupRunning, third: cpus("6"), groups: [2]string{gw, gw}},
		"a gang group of which a gang is unknown":     {has: two, asks: cpus("6"), in: "other", queue: "free", phase: v1beta1.PodGroupUnknown, third: cpus("6"), groups: [2]string{gw, gw}},
		"a gang group of which a gang is completed":   {has: two, asks: cpus("6"), in: "other", queue: "free", phase: v1beta1.PodGroupCompleted, third: cpus("6"), groups: [2]string{gw, gw}, want: ofThird},
		"another gang group":                          {has: two, asks: cpus("3"), groups: [2]string{`["ns/g","ns/x"]`, gw}, want: ofQueue},
		"only one of them names the gang group":       {has: two, asks: cpus("3"), groups: [2]string{"", gw}, want: ofQueue},
		"a gang that never fits":                      {has: two, asks: cpus("3"), never: true},
		"a gang that holds what it asks for":          {has: two, asks: cpus("3"), pod: pod("2").Node("n")},
		"a gang that holds a part":                    {has: cpus("3"), asks: cpus("3"), pod: pod("1").Node("n"), want: ofQueue},
		"a gang whose pod has ended":                  {has: cpus("3"), asks: cpus("3"), pod: pod("1").Node("n").Phase(v1.PodSucceeded), want: ofQueue},
		"a gang whose pod is gated":                   {has: cpus("3"), asks: cpus("3"), pod: pod("1").Gate("example.com/g"), want: ofQueue},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			if err := c.AddOrUpdateNode(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "8", "pods": "110"}).Obj()); err != nil {
				t.Fatal(err)
			}
			for name, capability := range map[string]schedtest.Resources{"q": {"cpu": "4"}, "other": {}, "free": {}, "zero": {"cpu": "0"}, "no-gpus": {"nvidia.com/gpu": "0"}, "large": {"cpu": "20", "pods": "1"}, "parent": {"cpu": "5"}} {
				queue := schedtest.MakeQueue().Name(name).Capability(capability).Obj()
				if name == "q" || name == "other" {
					queue.Spec.Parent = "parent"
				}
				c.AddQueueV1beta1(queue)
			}
			if tt.never {
				c.part = infeasible("ns/g")
			}
			orDefault := func(s, other string) string {
				if s == "" {
					return other
				}
				return s
			}
			arguments := map[string]any{}
			if tt.factor > 0 {
				arguments["overcommit-factor"] = tt.factor
			}
			on := !tt.off
			session := sessions(t, c, 0, conf.PluginOption{Name: orDefault(tt.plugin, "capacity"), EnabledHierarchy: &tt.nested, EnabledJobEnqueued: &on, Arguments: arguments})
			phase := v1beta1.PodGroupPhase(orDefault(string(tt.phase), string(v1beta1.PodGroupInqueue)))
			if tt.third != nil {
				c.AddPodGroupV1beta1(asking("ns", "third", "free", tt.third, v1beta1.PodGroupInqueue))
			}
			if tt.now {
				phase = v1beta1.PodGroupPending
			}
			namespace := orDefault(tt.namespace, "ns")
			g, w := asking("ns", "g", orDefault(tt.in, "q"), tt.has, phase), asking(namespace, "w", orDefault(tt.queue, "q"), tt.asks, v1beta1.PodGroupPending)
			for i, pg := range []*v1beta1.PodGroup{g, w} {
				if tt.groups[i] != "" {
					pg.Annotations = map[string]string{gangs.GroupsAnnotation: tt.groups[i]}
				}
				c.AddPodGroupV1beta1(pg)
			}
			if tt.pod != nil {
				c.AddPod(tt.pod.Obj())
			}
			asks := api.JobID(namespace + "/w")
			var job *api.JobInfo
			session(func(ssn *framework.Session) {
				job = ssn.Jobs[asks]
				if tt.now {
					ssn.JobEnqueueable(ssn.Jobs["ns/g"])
					ssn.JobEnqueued(ssn.Jobs["ns/g"])
					ssn.Jobs["ns/g"].PodGroup.Status.Phase = scheduling.PodGroupInqueue
				}
				if got := ssn.JobEnqueueable(job); got != (tt.want == "") {
					t.Errorf("the gang is admitted: %t, want %t", got, tt.want == "")
				}
			})
			if got := c.pending.PendingReasons()[asks]; tt.want != "" && (got.Reason != framework.NotEnqueued || got.Message != tt.want) {
				t.Errorf("got  %v,\nwant %q", got, tt.want)
			}
			if len(job.Tasks) > 0 {
				t.Errorf("after the session the gang still has tasks without pods: %v", job.Tasks)
			}
		})
	}
}
