// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// actor plays events of its own gangs, pods and nodes, so several actors can run concurrently.
type actor struct {
	w    *harness
	rng  *rand.Rand
	name string

	groups map[string]*v1beta1.PodGroup
	pods   map[string]*v1.Pod
	nodes  map[string]*v1.Node
	born   int
}

func newActor(w *harness, name string, seed uint64) *actor {
	a := &actor{
		w: w, name: name, rng: rand.New(rand.NewPCG(seed, uint64(name[0]))),
		groups: map[string]*v1beta1.PodGroup{}, pods: map[string]*v1.Pod{}, nodes: map[string]*v1.Node{},
	}
	for range 6 {
		a.newPodGroup()
		a.newNode()
	}
	return a
}

// act plays one random event.
func (a *actor) act() {
	events := []func(){
		a.newPod, a.newPod, a.newPod, a.newPod, a.newForeignPod, a.seePod, a.runPod, a.runPod, a.runPod, a.runPod, a.changePod, a.finishPod, a.endPod, a.deletePod, a.deletePod,
		a.newNode, a.changeNode, a.changeNode, a.deleteNode, a.measureNode, a.numaOfNode, a.noNUMAOfNode, a.csiNode,
		a.newPodGroup, a.changePodGroup, a.changePodGroup, a.deletePodGroup, a.bookHyperNodes, a.runGang, a.runGang,
	}
	if a.name == "a" { // Only one actor changes objects that exist once.
		events = append(events, a.priorityClass, a.noPriorityClass, a.queue, a.noQueue, a.quota, a.hyperNode, a.inShard)
	}
	events[a.rng.IntN(len(events))]()
}

// one returns a random key, or an empty string if the map is empty.
func one[T any](a *actor, from map[string]T) string {
	if len(from) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(from))[a.rng.IntN(len(from))]
}

func (a *actor) fresh(kind string) string {
	a.born++
	return fmt.Sprintf("%s-%s%d", a.name, kind, a.born)
}

func (a *actor) put(pod *v1.Pod) {
	pod = a.w.cluster.Put(pod).(*v1.Pod)
	old := a.pods[pod.Name]
	a.pods[pod.Name] = pod
	informer(a.w.cache.SharedInformerFactory().Core().V1().Pods().Informer(), pod)
	if old == nil {
		a.w.cache.books.Pods.Show(pod)
		a.w.cache.changes.podAdded(pod)
		return
	}
	a.w.cache.books.Pods.Show(pod)
	a.w.cache.changes.podUpdated(old, pod)
}

func informer(i cache.SharedIndexInformer, object any) {
	if err := i.GetStore().Add(object); err != nil {
		panic(err)
	}
}

func (a *actor) newPod() {
	if len(a.pods) > 40 {
		return
	}
	b := schedtest.MakePod().Name(a.fresh("p")).Group(one(a, a.groups)).Req(schedtest.Resources{"cpu": strconv.Itoa(a.rng.IntN(3)), "memory": "1Gi"}).
		Label("rack", strconv.Itoa(a.rng.IntN(2))).Role("worker")
	switch a.rng.IntN(8) {
	case 0:
		b.HostPort(int32(8000 + a.rng.IntN(4)))
	case 1:
		b.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "0"}},
		}}}})
	case 2:
		b.NodeSelector(v1.LabelHostname, one(a, a.nodes))
	case 3:
		b.Priority(int32(a.rng.IntN(3) - 1))
	case 4:
		b.Gate("wait")
	}
	a.put(b.Obj())
}

// newForeignPod adds a pod that another scheduler has placed, on a node that may not exist.
func (a *actor) newForeignPod() {
	if len(a.pods) > 40 {
		return
	}
	a.put(schedtest.MakePod().Name(a.fresh("f")).Scheduler("other").Node(a.name + "-n" + strconv.Itoa(a.rng.IntN(a.born)+1)).
		Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj())
}

// live returns the named pod as the API server has it, which may be bound before the watch shows that to the cache. It
// returns nil if the pod was deleted.
func (a *actor) live(name string) *v1.Pod {
	object, err := a.w.cluster.Kube.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), schedtest.Namespace, name)
	if err != nil {
		return nil
	}
	return object.(*v1.Pod).DeepCopy()
}

func (a *actor) changeLive(change func(*v1.Pod)) {
	name := one(a, a.pods)
	if name == "" {
		return
	}
	pod := a.live(name)
	if pod == nil { // The pod was evicted.
		a.removePod(name)
		return
	}
	change(pod)
	a.put(pod)
}

func (a *actor) seePod() { a.changeLive(func(*v1.Pod) {}) }

func (a *actor) runPod() {
	a.changeLive(func(pod *v1.Pod) {
		if pod.Spec.NodeName != "" {
			pod.Status.Phase = v1.PodRunning
		}
	})
}

func (a *actor) changePod() {
	a.changeLive(func(pod *v1.Pod) {
		pod.Labels["rack"] = strconv.Itoa(a.rng.IntN(2))
		pod.Annotations["note"] = strconv.Itoa(a.rng.IntN(9))
		pod.Spec.SchedulingGates = nil
	})
}

func (a *actor) finishPod() {
	a.changeLive(func(pod *v1.Pod) {
		if pod.Spec.NodeName != "" {
			pod.Status.Phase = []v1.PodPhase{v1.PodSucceeded, v1.PodFailed}[a.rng.IntN(2)]
		}
	})
}

func (a *actor) endPod() {
	a.changeLive(func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
}

func (a *actor) deletePod() {
	if name := one(a, a.pods); name != "" {
		a.removePod(name)
	}
}

func (a *actor) removePod(name string) {
	pod := a.pods[name]
	delete(a.pods, name)
	_ = a.w.cluster.Kube.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, name)
	if err := a.w.cache.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().Delete(pod); err != nil {
		panic(err)
	}
	a.w.cache.books.Pods.Hide(pod)
	a.w.cache.changes.podDeleted(pod)
}

func (a *actor) newNode() {
	if len(a.nodes) < 8 {
		a.putNode(a.fresh("n"))
	}
}

func (a *actor) changeNode() {
	if name := one(a, a.nodes); name != "" {
		a.putNode(name)
	}
}

// putNode adds a node with room for all pods. Upstream's copy of a node with too little room is not deterministic.
func (a *actor) putNode(name string) {
	b := schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": strconv.Itoa(1000 + a.rng.IntN(3)), "memory": "900Gi", "pods": "999", "nvidia.com/gpu": "8"})
	b.Label("rack", strconv.Itoa(a.rng.IntN(2)))
	if a.rng.IntN(4) == 0 {
		b.Label(v1beta1.RevocableZone, "z")
	}
	if a.rng.IntN(4) == 0 {
		b.Annotation(api.OversubscriptionCPU, strconv.Itoa(1000*a.rng.IntN(3)))
	}
	node := b.Obj()
	for i := range a.rng.IntN(3) {
		node.Status.Images = append(node.Status.Images, v1.ContainerImage{Names: []string{fmt.Sprintf("image-%d", i)}, SizeBytes: 1000})
	}
	a.nodes[name] = node
	informer(a.w.cache.SharedInformerFactory().Core().V1().Nodes().Informer(), node)
	a.w.cache.books.Nodes.Show(node)
}

func (a *actor) deleteNode() {
	name := one(a, a.nodes)
	if name == "" {
		return
	}
	node := a.nodes[name]
	delete(a.nodes, name)
	if err := a.w.cache.SharedInformerFactory().Core().V1().Nodes().Informer().GetStore().Delete(node); err != nil {
		panic(err)
	}
	a.w.cache.books.Nodes.Hide(name)
	a.w.cache.changes.nodeDeleted(node)
}

// measureNode reports a load of the node, as the metrics source does.
func (a *actor) measureNode() {
	a.w.cache.books.Nodes.SetUsage(map[string]*api.NodeUsage{one(a, a.nodes): {CPUUsageAvg: map[string]float64{"5m": float64(a.rng.IntN(100))}, MEMUsageAvg: map[string]float64{}}})
}

func (a *actor) numaOfNode() {
	if name := one(a, a.nodes); name != "" {
		a.w.cache.books.Nodes.ShowNUMA(&nodeinfov1alpha1.Numatopology{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: nodeinfov1alpha1.NumatopoSpec{
				NumaResMap: map[string]nodeinfov1alpha1.ResourceInfo{"cpu": {Allocatable: fmt.Sprintf("0-%d", 1+a.rng.IntN(7)), Capacity: 8}},
			},
		})
	}
}

func (a *actor) noNUMAOfNode() {
	if name := one(a, a.nodes); name != "" {
		a.w.cache.books.Nodes.HideNUMA(name)
	}
}

func (a *actor) csiNode() {
	if name := one(a, a.nodes); name != "" {
		a.w.cache.books.Nodes.ShowCSI(&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d" + strconv.Itoa(a.rng.IntN(2))}}},
		})
	}
}

func (a *actor) newPodGroup() {
	if len(a.groups) < 8 {
		a.putPodGroup(a.fresh("g"))
	}
}

func (a *actor) changePodGroup() {
	if name := one(a, a.groups); name != "" {
		a.putPodGroup(name)
	}
}

func (a *actor) putPodGroup(name string) {
	b := schedtest.MakePodGroup().Name(name).MinMember(int32(a.rng.IntN(4))).Queue([]string{schedtest.Queue, "q"}[a.rng.IntN(2)]).
		PriorityClass([]string{"", "high", "unknown"}[a.rng.IntN(3)]).Annotation("note", strconv.Itoa(a.rng.IntN(3))).
		Phase([]v1beta1.PodGroupPhase{v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, v1beta1.PodGroupRunning}[a.rng.IntN(3)])
	switch a.rng.IntN(5) {
	case 0:
		b.Topology(v1beta1.SoftNetworkTopologyMode, 2)
	case 1:
		b.SubGroups("racks", "rack", 1, 2).SubGroupTopology(v1beta1.HardNetworkTopologyMode, 1)
	case 2:
		b.MinTaskMember("worker", 1)
	}
	a.showPodGroup(b.Obj())
}

func (a *actor) showPodGroup(pg *v1beta1.PodGroup) {
	pg = a.w.cluster.Put(pg).(*v1beta1.PodGroup)
	old := a.groups[pg.Name]
	a.groups[pg.Name] = pg
	informer(a.w.cache.sources.volcano.Scheduling().V1beta1().PodGroups().Informer(), pg)
	if old == nil {
		a.w.cache.changes.showGroup(pg)
		return
	}
	a.w.cache.changes.showGroup(pg)
	a.w.cache.changes.podGroupUpdated(old, pg)
}

// runGang shows a PodGroup and all its pods running. Less is compared of the copies of such jobs.
func (a *actor) runGang() {
	gang := one(a, a.groups)
	if gang == "" {
		return
	}
	pg := a.groups[gang].DeepCopy()
	pg.Status.Phase = v1beta1.PodGroupRunning
	a.showPodGroup(pg)
	for _, name := range slices.Sorted(maps.Keys(a.pods)) {
		if pod := a.live(name); pod != nil && pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == gang {
			pod.Spec.NodeName, pod.Status.Phase = cmp.Or(pod.Spec.NodeName, one(a, a.nodes)), v1.PodRunning
			a.put(pod)
		}
	}
}

func (a *actor) deletePodGroup() {
	name := one(a, a.groups)
	if name == "" || len(a.groups) == 1 {
		return
	}
	pg := a.groups[name]
	delete(a.groups, name)
	a.w.cluster.Remove(pg)
	if err := a.w.cache.sources.volcano.Scheduling().V1beta1().PodGroups().Informer().GetStore().Delete(pg); err != nil {
		panic(err)
	}
	a.w.cache.changes.podGroupDeleted(pg)
}

// bookHyperNodes records the HyperNodes of a gang as a session does.
func (a *actor) bookHyperNodes() {
	job := &api.JobInfo{UID: api.JobID(schedtest.Namespace + "/" + one(a, a.groups)), AllocatedHyperNode: "h" + strconv.Itoa(a.rng.IntN(4))}
	a.w.cache.books.Lock()
	own := a.w.cache.books.Jobs.Get(job.UID)
	if own == nil || own.PodGroup == nil {
		a.w.cache.books.Unlock()
		return
	}
	job = own.Clone()
	a.w.cache.books.Unlock()
	job.AllocatedHyperNode = "h" + strconv.Itoa(a.rng.IntN(4))
	for _, sub := range job.SubJobs {
		sub.AllocatedHyperNode = job.AllocatedHyperNode
	}
	job.PodGroup.Annotations[api.JobAllocatedHyperNode] = job.AllocatedHyperNode
	a.w.cache.books.Jobs.NoteHyperNodes(job)
	a.w.cache.books.Jobs.NoteHyperNode(job)
}

func (a *actor) priorityClass() {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: []string{"high", "usual"}[a.rng.IntN(2)]}, Value: int32(a.rng.IntN(5))}
	class.GlobalDefault = class.Name == "usual"
	showPriorityClass(a.w.cache, class)
}

func (a *actor) noPriorityClass() {
	hidePriorityClass(a.w.cache, "usual")
}

func (a *actor) queue() {
	a.w.cache.changes.showQueue(schedtest.MakeQueue().Name("q").Weight(int32(1 + a.rng.IntN(3))).Obj())
}

func (a *actor) noQueue() { hideQueue(a.w.cache, "q") }

func (a *actor) quota() {
	showQuota(a.w.cache, &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: schedtest.Namespace, Name: "quota"}, Status: v1.ResourceQuotaStatus{Hard: v1.ResourceList{}},
	})
}

// hyperNode redistributes the nodes among the leaf HyperNodes h0 to h2, which are the members of h3.
func (a *actor) hyperNode() {
	leaf := strconv.Itoa(a.rng.IntN(3))
	members := schedtest.MakeHyperNode().Name("h" + leaf)
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		if name[len(name)-1]%3 == leaf[0]%3 {
			members.Nodes(name)
		}
	}
	for _, hyperNode := range []*topologyv1alpha1.HyperNode{
		members.Obj(), schedtest.MakeHyperNode().Name("h3").Tier(2).HyperNodes("h0", "h1", "h2").Obj(),
	} {
		if err := a.w.cache.sources.volcano.Topology().V1alpha1().HyperNodes().Informer().GetStore().Add(hyperNode); err != nil {
			panic(err)
		}
		a.w.cache.changes.hyperNodeChanged(hyperNode)
	}
}

func (a *actor) inShard() {
	a.w.cache.books.Lock()
	defer a.w.cache.books.Unlock()
	a.w.cache.books.InShard.Insert(one(a, a.nodes))
}
