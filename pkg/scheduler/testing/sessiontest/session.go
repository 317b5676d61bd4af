// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	kubefake "k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/util"
	vcutil "volcano.sh/volcano/pkg/util"

	devicesv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// ClusterSpec describes the content of a Cluster.
type ClusterSpec struct {
	Nodes           []*v1.Node
	Pods            []*v1.Pod
	PodGroups       []*v1beta1.PodGroup
	Queues          []*v1beta1.Queue // a queue named "default" always exists
	PriorityClasses []*schedulingv1.PriorityClass
	HyperNodes      []*topologyv1alpha1.HyperNode
	// Shard is the shard of nodes of the scheduler under test; nil if nodes are not divided between schedulers.
	Shard *Shard
	// Devices are Koordinator's Device objects; nil for a cluster without their CRD.
	Devices []*devicesv1alpha1.Device
	// Topology is the ClusterNetworkTopology; nil for a cluster without its CRD.
	Topology *devicesv1alpha1.ClusterNetworkTopology
	// Objects are all other objects in the API server: volumes, claims, services and so on.
	Objects []runtime.Object
}

// Shard is the set of nodes that belongs to one of several schedulers of a cluster.
type Shard struct {
	// Mode is upstream's sharding mode. With "hard", the scheduler uses only nodes of its shard. With "soft", it
	// prefers nodes of its shard.
	Mode string
	// Nodes are the nodes of the shard.
	Nodes []string
}

// Cluster is upstream's cache, or books beside it, filled with the content of a ClusterSpec.
type Cluster struct {
	cache  *recordingCache
	handle *handle
	stop   chan struct{}
	// recovered are the names of the plugins whose Recover was called.
	recovered map[string]bool
}

var initMetrics sync.Once

// New returns a cluster, which must be closed. Upstream has one volume binder and one sharding mode for each process,
// so only one cluster with volumes or shards can be used at a time.
func New(w ClusterSpec) *Cluster {
	initMetrics.Do(vcmetrics.InitKubeSchedulerRelatedMetrics)
	evictor := util.NewFakeEvictor(0)
	cache := vccache.NewCustomMockSchedulerCache(schedulertesting.SchedulerName, nil, evictor, &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	kube := cache.Client().(*kubefake.Clientset)
	kube.Resources = []*metav1.APIResourceList{{GroupVersion: resourcev1.SchemeGroupVersion.String()}} // plugins check whether the API server serves these
	tracker := kube.Tracker()
	for _, object := range w.Objects {
		if err := tracker.Add(object); err != nil {
			panic(err)
		}
	}
	c := &Cluster{cache: &recordingCache{SchedulerCache: cache, binds: map[string]Bind{}}, stop: make(chan struct{}), recovered: map[string]bool{}}
	c.handle = &handle{cache: c.cache, devices: &schedulertesting.DeviceServer{}, stop: c.stop, known: map[toolscache.SharedIndexInformer]bool{}}
	if w.Devices != nil {
		c.handle.devices.Put(w.Devices...)
	}
	if w.Topology != nil {
		c.handle.devices.PutTopology(w.Topology)
	}
	// The flag --ignored-provisioners sets these provisioners in production. Their volumes do not count against a
	// node's attach limits.
	cache.IgnoredCSIProvisioners = sets.New("rancher.io/local-path", "hostpath.csi.k8s.io", "kubernetes.io/no-provisioner")
	binder := volumeBinder(cache)
	cache.Run(c.stop)
	if len(w.Objects) > 0 {
		settle(cache, tracker, binder)
	}
	c.fill(w)
	return c
}

// Load replaces the content of the cluster, which is much cheaper than creating a new cluster. Objects, Devices and
// Topology stay as New has set them, so these fields of the new ClusterSpec must be empty.
func (c *Cluster) Load(w ClusterSpec) {
	if len(w.Objects) > 0 || w.Devices != nil || w.Topology != nil {
		panic("sessiontest: Objects, Devices and Topology are given to New only")
	}
	cache := c.cache
	cache.Mutex.Lock()
	clear(cache.Jobs)
	clear(cache.Nodes)
	clear(cache.Queues)
	clear(cache.PriorityClasses)
	clear(cache.NamespaceCollection)
	cache.NodeList = nil
	cache.HyperNodesInfo = api.NewHyperNodesInfo(cache.SharedInformerFactory().Core().V1().Nodes().Lister())
	cache.Mutex.Unlock()
	c.fill(w)
}

func (c *Cluster) fill(w ClusterSpec) {
	cache := c.cache
	options.ServerOpts.ShardingMode = vcutil.NoneShardingMode
	cache.InUseNodesInShard = sets.New[string]()
	if w.Shard != nil {
		options.ServerOpts.ShardingMode = w.Shard.Mode
		cache.InUseNodesInShard.Insert(w.Shard.Nodes...)
	}
	var listed []any // the content of the node informer's store, in which HyperNodes look up their members
	for _, node := range w.Nodes {
		listed = append(listed, node)
	}
	if err := cache.SharedInformerFactory().Core().V1().Nodes().Informer().GetStore().Replace(listed, ""); err != nil {
		panic(err)
	}
	cache.fillBooks(w)
	if cache.books == nil {
		cache.fillUpstream(w)
	}
	cache.pods = w.Pods
	for _, pod := range w.Pods {
		c.AddPod(pod)
	}
	for _, hyperNode := range w.HyperNodes {
		if err := cache.HyperNodesInfo.UpdateHyperNode(hyperNode); err != nil {
			panic(err)
		}
	}
}

// fillUpstream fills upstream's cache with the content of the cluster, except pods.
func (c *recordingCache) fillUpstream(w ClusterSpec) {
	for _, node := range w.Nodes {
		if err := c.AddOrUpdateNode(node); err != nil {
			panic(err)
		}
	}
	for _, class := range w.PriorityClasses {
		c.AddPriorityClass(class)
	}
	for _, group := range w.PodGroups {
		c.AddPodGroupV1beta1(group)
	}
	for _, queue := range append(w.Queues, schedulertesting.MakeQueue().Name(schedulertesting.Queue).Obj()) {
		if c.Queues[api.QueueID(queue.Name)] == nil {
			c.AddQueueV1beta1(queue)
		}
	}
}

// AddPod adds a pod as the pod informer would. If a plugin of an earlier session counts resources, the pod's
// requests are changed to the amounts that this plugin counts.
func (c *Cluster) AddPod(pod *v1.Pod) {
	c.cache.sums.Count(pod)
	if c.cache.books != nil {
		c.cache.books.Pods.Show(pod)
	} else {
		c.cache.AddPod(pod)
	}
}

// Cache returns upstream's cache. A test uses it to change the cluster between two sessions.
func (c *Cluster) Cache() *vccache.SchedulerCache { return c.cache.SchedulerCache }

// Kube returns the fake API server, so that a test can check writes. It has only the ClusterSpec's Objects: pods and
// nodes are added to the cache directly.
func (c *Cluster) Kube() *kubefake.Clientset {
	return c.cache.SchedulerCache.Client().(*kubefake.Clientset)
}

// Close ends the cluster's goroutines.
func (c *Cluster) Close() { close(c.stop) }

// Session is an open session.
type Session struct {
	*framework.Session
	registry *framework.Registry
	cache    *recordingCache
	// close closes the plugins if they were built only for this session; nil otherwise.
	close func()
}

// Open opens a session with the conf's tiers on a snapshot of the cluster. The registry must contain this project's
// plugins that the conf names. Before the first session of a plugin, Open calls its Recover function, as a new leader
// does.
func (c *Cluster) Open(registry *framework.Registry, confText string) *Session {
	scheduler := c.Scheduler(registry, confText)
	ssn := scheduler.Open()
	ssn.close = scheduler.Close
	return ssn
}

func (c *Cluster) recover(profile *framework.Profile) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, r := range profile.Recoverers() {
		if c.recovered[r.Plugin] {
			continue
		}
		c.recovered[r.Plugin] = true
		if err := r.Recover(ctx); err != nil {
			panic(err)
		}
	}
}

// Run executes the actions in order. It can run actions of upstream and of this project.
func (s *Session) Run(actions ...vcframework.Action) {
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range actions {
		conf.EnabledActionMap[action.Name()] = true
	}
	for _, action := range actions {
		s.Session.Execute(action)
	}
}

// Close closes the session, and the plugins if they were built only for this session. It writes nothing.
func (s *Session) Close() {
	s.registry.CloseSession(s.Session)
	if s.close != nil {
		s.close()
	}
}

// Binds returns the nodes of the pods that the session handed over to be bound, by "namespace/name" of the pod.
func (s *Session) Binds() map[string]string {
	nodes := map[string]string{}
	for pod, bind := range s.cache.bound() {
		nodes[pod] = bind.Node
	}
	return nodes
}

// Handed returns the pods that the session handed over to be bound, by "namespace/name", with their nodes and pre-bind
// steps.
func (s *Session) Handed() map[string]Bind { return s.cache.bound() }

// Evicts lists the pods that the session evicted, as "namespace/name".
func (s *Session) Evicts() []string { return s.cache.evicted() }

// Protected lists the pods that the session evicted and about which the API server would be asked, as "namespace/name".
func Protected(s *Session) []string { return s.cache.protectedPods() }

// Pipelined returns the nodes of the tasks that wait for resources being released, by "namespace/name".
func (s *Session) Pipelined() map[string]string {
	out := map[string]string{}
	for _, job := range s.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			out[key(task)] = task.NodeName
		}
	}
	return out
}

func key(task *api.TaskInfo) string { return fmt.Sprintf("%s/%s", task.Namespace, task.Name) }
