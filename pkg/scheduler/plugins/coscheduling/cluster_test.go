// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// sessionsConf is a configuration with the plugin, and with plugins that limit resources before it.
const sessionsConf = `
actions: enqueue, allocate
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: coscheduling
    arguments: {ARGUMENTS}
`

// simulation is a cluster in which sessions run one after another. The decisions of a session take effect before the
// next session.
type simulation struct {
	t         *testing.T
	cluster   *sessiontest.Cluster
	registry  *framework.Registry
	scheduler *sessiontest.Scheduler
	conf      string
	// devices is the spec of plugin deviceshare.
	devices framework.PluginSpec
	// plugin is the plugin of the configuration in force.
	plugin  *plugin
	actions []vcframework.Action
	pods    map[string]*v1.Pod
	// bound and evicted are the numbers of the sessions in which each pod was bound or evicted.
	bound, evicted map[string]int
	sessions       int
}

// in runs the test with a simulation, in a synctest bubble.
func in(t *testing.T, w sessiontest.ClusterSpec, conf string, test func(*testing.T, *simulation)) {
	t.Helper()
	cluster := sessiontest.New(w)
	defer cluster.Close()
	devices := deviceshare.Spec()
	// The informers of plugin deviceshare run until the cluster is closed, so they must start outside of the synctest
	// bubble.
	if strings.Contains(conf, "name: "+deviceshare.Name) {
		if _, err := devices.New(nil, cluster.Handle()); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		made := &simulation{t: t, cluster: cluster, conf: conf, devices: devices, pods: map[string]*v1.Pod{}, bound: map[string]int{}, evicted: map[string]int{}}
		for _, pod := range w.Pods {
			made.pods[pod.Name] = pod
		}
		made.lead()
		defer func() { made.scheduler.Close() }()
		test(t, made)
	})
}

// lead simulates that a new leader takes over.
func (w *simulation) lead() {
	if w.scheduler != nil {
		w.scheduler.Close()
	}
	w.registry = framework.NewRegistry()
	spec := specWith(func(framework.Handle) (*v1alpha1.ClusterNetworkTopology, error) { return spines, nil })
	build := spec.New
	spec.Load = func(args framework.Arguments) (framework.Builder, error) {
		return func(h framework.Handle) (framework.Plugin, error) {
			made, err := build(args, h)
			w.plugin, _ = made.(*plugin)
			return made, err
		}, nil
	}
	w.registry.RegisterPlugin(spec)
	w.registry.RegisterPlugin(ibcluster.Spec())
	w.registry.RegisterPlugin(evictionbackoff.Spec())
	w.registry.RegisterPlugin(w.devices)
	w.registry.RegisterAction(allocate.New())
	place, _ := vcframework.GetAction("allocate")
	w.actions = []vcframework.Action{enqueue.New(), place}
	w.scheduler = w.cluster.Scheduler(w.registry, w.conf)
}

// preempts adds action preempt to the sessions.
func (w *simulation) preempts() {
	action := preempt.New(nil)
	w.registry.RegisterAction(action)
	found, _ := vcframework.GetAction(action.Name())
	w.actions = append(w.actions, found)
}

// session runs a session. Its decisions take effect at once. look may inspect the session before it closes.
func (w *simulation) session(look ...func(*sessiontest.Session)) {
	w.t.Helper()
	w.sessions++
	ssn := w.scheduler.Open()
	ssn.Run(w.actions...)
	for _, l := range look {
		l(ssn)
	}
	jobs := maps.Clone(ssn.Jobs)
	ssn.Close()
	w.cluster.Cache().Mutex.Lock()
	for uid, job := range jobs {
		if own := w.cluster.Cache().Jobs[uid]; own != nil && own.PodGroup != nil {
			job.PodGroup.Status.DeepCopyInto(&own.PodGroup.Status)
		}
	}
	w.cluster.Cache().Mutex.Unlock()
	for name, node := range ssn.Binds() {
		name = name[len(schedtest.Namespace)+1:]
		w.bound[name] = w.sessions
		w.update(name, func(pod *v1.Pod) {
			now := metav1.Now()
			pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = node, v1.PodRunning, &now
		})
	}
	for _, name := range ssn.Evicts() {
		name = name[len(schedtest.Namespace)+1:]
		w.evicted[name] = w.sessions
		w.remove(name)
	}
}

// pass advances the time by d, with a session after each interval.
func (w *simulation) pass(d, every time.Duration) {
	w.t.Helper()
	for range d / every {
		time.Sleep(every)
		w.session()
	}
}

func (w *simulation) update(name string, change func(*v1.Pod)) {
	before := w.pods[name]
	after := before.DeepCopy()
	change(after)
	w.cluster.Cache().UpdatePod(before, after)
	w.pods[name] = after
}

func (w *simulation) add(pods ...*v1.Pod) {
	for _, pod := range pods {
		w.pods[pod.Name] = pod
		w.cluster.Cache().AddPod(pod)
	}
}

func (w *simulation) remove(name string) {
	w.cluster.Cache().DeletePod(w.pods[name])
	delete(w.pods, name)
}

func (w *simulation) job(name string) *api.JobInfo {
	return w.cluster.Cache().Jobs[api.JobID(schedtest.Namespace+"/"+name)]
}

func (w *simulation) phase(gang string) scheduling.PodGroupPhase {
	return w.job(gang).PodGroup.Status.Phase
}

// condition returns the gang's condition of this type, or the zero value.
func (w *simulation) condition(gang string, kind scheduling.PodGroupConditionType) scheduling.PodGroupCondition {
	conditions := w.job(gang).PodGroup.Status.Conditions
	if i := slices.IndexFunc(conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == kind }); i >= 0 {
		return conditions[i]
	}
	return scheduling.PodGroupCondition{}
}

// runs reports whether all members of the gang run.
func (w *simulation) runs(gang string) bool {
	job := w.job(gang)
	return len(job.Tasks) > 0 && len(job.TaskStatusIndex[api.Running]) == len(job.Tasks)
}

// members builds the gang's pods.
func members(pod *schedtest.PodBuilder, gang string, n int) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		pods = append(pods, pod.Name(gang+"-"+string(rune('0'+i))).Group(gang).Obj())
	}
	return pods
}

func cores(n string) schedtest.Resources { return schedtest.Resources{"cpu": n} }

func holds(cpu string) *schedtest.NodeBuilder {
	return schedtest.MakeNode().Capacity(schedtest.Resources{"cpu": cpu, "pods": "20"})
}
