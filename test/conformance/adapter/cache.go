// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
)

// wrap returns our cache over upstream's on its fake clients, or on new ones if it has none. It returns nil if
// upstream's cache has no informers, which cannot be added. It starts the cache unless stop is nil.
func wrap(upstream *vccache.SchedulerCache, stop <-chan struct{}) *cache.Cache {
	if upstream.SharedInformerFactory() == nil {
		return nil
	}
	kube, ok := upstream.Client().(*kubefake.Clientset)
	if !ok {
		kube = kubefake.NewClientset()
	}
	vc, ok := upstream.VCClient().(*vcfake.Clientset)
	if !ok {
		vc = vcfake.NewSimpleClientset()
	}
	// The recorder of upstream's tests blocks forever after a hundred events.
	upstream.Recorder = &record.FakeRecorder{}
	s := server{pods: map[types.NamespacedName]*corev1.Pod{}, groups: map[types.NamespacedName]*v1beta1.PodGroup{}}
	s.fill(upstream)
	bind, evict := upstream.Binder, upstream.Evictor
	s.bound = func(pod types.NamespacedName, node string) {
		if bind != nil {
			task := &api.TaskInfo{Namespace: pod.Namespace, Name: pod.Name}
			task.NodeName = node
			// Bind may block until the test reads its channel. A call to the API server must not wait for that.
			go bind.Bind(kube, []*api.TaskInfo{task})
		}
	}
	s.deleted = func(pod *corev1.Pod) {
		if evict != nil {
			go func() { _ = evict.Evict(pod, "") }()
		}
	}
	kube.PrependReactor("*", "pods", s.onPod)
	vc.PrependReactor("get", "podgroups", s.onPodGroup)
	settings := cache.Settings{
		Rest: &rest.Config{}, SchedulerNames: s.schedulerNames(), DefaultQueue: "default", Events: upstream.Recorder,
		IgnoredProvisioners: sets.List(upstream.IgnoredCSIProvisioners),
	}
	c, err := cache.On(kube, vc, settings, observer{}, func(cache.Urgency) {})
	if err != nil {
		panic(err)
	}
	if stop != nil {
		c.Run(stop)
	}
	if err := errors.Join(s.watch(upstream, c), s.show(upstream, c.Books())); err != nil {
		panic(err)
	}
	return c
}

// schedulerNames returns the scheduler names of the pods.
func (s *server) schedulerNames() []string {
	names := map[string]bool{}
	for _, pod := range s.pods {
		names[pod.Spec.SchedulerName] = true
	}
	return slices.Collect(maps.Keys(names))
}

// show adds the contents of upstream's cache to our books.
func (s *server) show(upstream *vccache.SchedulerCache, books *books.Books) error {
	upstream.Mutex.Lock()
	defer upstream.Mutex.Unlock()
	var errs []error
	for _, name := range upstream.NodeList {
		if node := upstream.Nodes[name]; node != nil && node.Node != nil {
			books.Nodes.Show(node.Node)
			books.Nodes.SetUsage(map[string]*api.NodeUsage{name: node.ResourceUsage})
		}
	}
	books.Lock()
	for _, queue := range upstream.Queues {
		books.Tables.ShowQueue(queue.Queue)
	}
	maps.Copy(books.Tables.Priorities, upstream.PriorityClasses)
	maps.Copy(books.Tables.Quotas, upstream.NamespaceCollection)
	books.InShard = upstream.InUseNodesInShard.Clone()
	books.Unlock()
	for _, group := range s.groups {
		errs = append(errs, books.Jobs.ShowGroup(group))
	}
	for _, pod := range s.pods {
		books.Pods.Show(pod)
	}
	return errors.Join(errs...)
}

// server answers for the objects that the test put into the cache.
type server struct {
	pods    map[types.NamespacedName]*corev1.Pod
	groups  map[types.NamespacedName]*v1beta1.PodGroup
	bound   func(pod types.NamespacedName, node string)
	deleted func(*corev1.Pod)
}

func (s *server) fill(upstream *vccache.SchedulerCache) {
	upstream.Mutex.Lock()
	defer upstream.Mutex.Unlock()
	for _, job := range upstream.Jobs {
		for _, task := range job.Tasks {
			s.pods[types.NamespacedName{Namespace: task.Namespace, Name: task.Name}] = task.Pod.DeepCopy()
		}
		if job.PodGroup == nil {
			continue
		}
		group := &v1beta1.PodGroup{}
		if err := scheme.Scheme.Convert(&job.PodGroup.PodGroup, group, nil); err != nil {
			panic(err)
		}
		s.groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = group
	}
}

// watch adds the objects to the informers of our cache, because its API server has none.
func (s *server) watch(upstream *vccache.SchedulerCache, c *cache.Cache) error {
	var errs []error
	core := c.Handle().InformerFactory().Core().V1()
	for _, pod := range s.pods {
		errs = append(errs, core.Pods().Informer().GetIndexer().Add(pod))
	}
	for _, node := range upstream.Nodes {
		if node.Node != nil {
			errs = append(errs, core.Nodes().Informer().GetIndexer().Add(node.Node))
		}
	}
	budgets := c.Handle().InformerFactory().Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
	for _, budget := range upstream.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Informer().GetStore().List() {
		errs = append(errs, budgets.Add(budget))
	}
	for _, group := range s.groups {
		errs = append(errs, c.Handle().VolcanoInformerFactory().Scheduling().V1beta1().PodGroups().Informer().GetIndexer().Add(group))
	}
	for _, hyperNode := range hyperNodes(upstream.HyperNodesInfo) {
		errs = append(errs, c.Handle().VolcanoInformerFactory().Topology().V1alpha1().HyperNodes().Informer().GetIndexer().Add(hyperNode))
	}
	return errors.Join(errs...)
}

func (s *server) onPod(action clienttesting.Action) (bool, runtime.Object, error) {
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		pod, ok := s.pods[types.NamespacedName{Namespace: a.Namespace, Name: a.Name}]
		if !ok {
			return true, nil, notFound(a, a.Name)
		}
		return true, pod.DeepCopy(), nil
	case clienttesting.CreateActionImpl:
		binding, ok := a.Object.(*corev1.Binding)
		if !ok {
			return false, nil, nil
		}
		name := types.NamespacedName{Namespace: a.Namespace, Name: binding.Name}
		if pod, ok := s.pods[name]; !ok || pod.UID != binding.UID {
			return true, nil, notFound(a, binding.Name)
		}
		s.bound(name, binding.Target.Name)
		return true, binding, nil
	case clienttesting.UpdateActionImpl:
		return true, a.Object, nil
	case clienttesting.PatchActionImpl:
		return true, s.pods[types.NamespacedName{Namespace: a.Namespace, Name: a.Name}], nil
	case clienttesting.DeleteActionImpl:
		if pod, ok := s.pods[types.NamespacedName{Namespace: a.Namespace, Name: a.Name}]; ok {
			s.deleted(pod)
		}
		return true, nil, nil
	default:
		return false, nil, nil
	}
}

func (s *server) onPodGroup(action clienttesting.Action) (bool, runtime.Object, error) {
	get, ok := action.(clienttesting.GetAction)
	if !ok {
		return false, nil, nil
	}
	group, ok := s.groups[types.NamespacedName{Namespace: get.GetNamespace(), Name: get.GetName()}]
	if !ok {
		return true, nil, notFound(action, get.GetName())
	}
	return true, group.DeepCopy(), nil
}

func notFound(action clienttesting.Action, name string) error {
	return apierrors.NewNotFound(action.GetResource().GroupResource(), name)
}

// observer prints why members are not bound, beside the output of the test.
type observer struct{}

func (observer) StepDone(string, error, time.Duration)  {}
func (observer) RollbackDone(string, error)             {}
func (observer) Delayed(*binding.Member, binding.Delay) {}
func (observer) DelayEnded(*binding.Member, error)      {}
func (observer) InFlight(int)                           {}
func (observer) StatusRejected(string)                  {}
func (observer) EventDone(string)                       {}
func (observer) TransactionDone(r binding.Result) {
	for _, failed := range r.Failed {
		fmt.Printf("\nCONFORMANCE: %s/%s is not bound: %v\n", failed.Member.Task.Namespace, failed.Member.Task.Name, failed.Err)
	}
}
