// SPDX-License-Identifier: Apache-2.0

package books

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var (
	histories = rounds.Flag("books.histories", 300, 100000, "how many random histories TestBooksFollowTheReference plays")
	firstSeed = rounds.Flag("books.first", 0, 0, "the seed of the first history")
)

// events is the number of events in a history.
const events = 60

// history plays random events on books and on the reference. An event is a function of it.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	books *Books
	truth *reference
	given *api.ClusterInfo
	born  int
	log   []string
	// trusted reports whether sessions change tasks only by the methods of jobs and nodes. The books have the same
	// setting.
	trusted bool
	// touched are the nodes and jobs of which the last session has changed tasks.
	touched snapshot.Touched
}

// TestBooksFollowTheReference plays random events: pods, nodes and PodGroups that are added, changed, deleted and
// replaced during gaps of the watch; resizes; late claims; reservations, binds, releases and evictions; and sessions
// that change their copies. After each event the books, and sometimes the snapshots, must equal the sums of the
// reference.
func TestBooksFollowTheReference(t *testing.T) {
	first, n := firstSeed.Of(t), histories.Of(t)
	for seed := first; seed < first+n; seed++ {
		h := newHistory(t, uint64(seed))
		for range events {
			h.act()
			h.truth.settleGangs()
			if !h.check() {
				t.Fatalf("seed %d, after:\n%s", seed, strings.Join(h.log, "\n"))
			}
		}
	}
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 1)), truth: newReference(), trusted: seed%2 == 0, touched: noneTouched()}
	h.books = New(Config{DefaultQueue: "default", Now: func() time.Time { return h.truth.now }, Volumes: func(pod *v1.Pod) (map[v1.ResourceName]int64, error) {
		if len(pod.Spec.Volumes) == 0 {
			return nil, nil
		}
		if !h.truth.claims[pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName] {
			return nil, errors.New("no such claim")
		}
		return map[v1.ResourceName]int64{AttachLimit("csi"): 1}, nil
	}})
	if seed%4 < 2 {
		h.books.Nodes.Sums.Use(countsNothing{})
	}
	queue(h)
	showNode(h)
	showGroup(h)
	h.truth.settleGangs()
	return h
}

// countsNothing is the ResourceCounter of a plugin that counts no resource itself.
type countsNothing struct{}

func (countsNothing) CountPod(*v1.Pod) {}

func (countsNothing) CountNode(*v1.Node, iter.Seq[*v1.Pod]) (free, all map[v1.ResourceName]int64) {
	return nil, nil
}

func (countsNothing) Names() []v1.ResourceName { return nil }

func (countsNothing) ChangedNodes() []string { return nil }

func (h *history) act() {
	all := []func(*history){
		showPod, showPod, showPod, showPod, runPod, runPod, endPod, hidePod, hidePod, replacePod, hideFormerPod, runGang, runGang, regroupPod, resizePod, claim, resync, resync,
		showNode, showNode, hideNode, hideNode, csiNode, load, showNUMA, hideNUMA, takeCPUs,
		showGroup, showGroup, hideGroup, replaceGroup, noteHyperNode, queue, noQueue, class,
		reserve, reserve, reserve, reserve, bind, bind, release, release, seeBound, seeBound, evict, evict, spare, pass, pass,
		session, session, session, changeCopies, changeCopies, changeCopies, sessions, sessions, sessions,
	}
	all[h.rng.IntN(len(all))](h)
}

func (h *history) check() bool {
	h.books.Lock()
	defer h.books.Unlock()
	h.books.Pods.lapse()
	if len(h.books.Nodes.inexact) > 0 && h.rng.IntN(3) > 0 { // Sometimes the effect of several events is compared at once.
		return !h.t.Failed()
	}
	for _, e := range h.books.Nodes.entries {
		h.books.Nodes.countNode(e)
	}
	got := viewOf(maps.Collect(h.books.Jobs.All()), allNodes(h.books.Nodes), false)
	if diff := cmp.Diff(h.truth.view(false), got); diff != "" {
		h.t.Errorf("the books (-want +got):\n%s", diff)
		return false
	}
	return !h.t.Failed()
}

func allNodes(nodes *Nodes) map[string]*api.NodeInfo {
	all := map[string]*api.NodeInfo{}
	for name, e := range nodes.entries {
		all[name] = e.info
	}
	return all
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) fresh(kind string) string {
	h.born++
	return fmt.Sprintf("%s%d", kind, h.born)
}

// pick returns a random key of the map, and false if the map is empty.
func pick[T any](h *history, from map[string]T) (string, bool) {
	if len(from) == 0 {
		return "", false
	}
	return slices.Sorted(maps.Keys(from))[h.rng.IntN(len(from))], true
}

func (h *history) nodeName() string { return fmt.Sprintf("n%d", h.rng.IntN(3)) }

func (h *history) groupName() string { return fmt.Sprintf("g%d", h.rng.IntN(3)) }

// show shows the pod to the books and to the reference.
func (h *history) show(pod *v1.Pod) {
	h.note("show pod %s %s group %q node %q phase %s deleted %v cpu %v", pod.Name, pod.UID, pod.Annotations[v1beta1.KubeGroupNameAnnotationKey],
		pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp != nil, cpuOf(pod))
	former, placed := h.truth.pods[pod.Name], false
	if former != nil && former.UID != pod.UID {
		delete(h.truth.victims, former.UID)
	} else if former != nil {
		node, _ := h.truth.where(former)
		placed = node != ""
	}
	h.truth.pods[pod.Name] = pod
	h.endHold(pod.Name)
	h.truth.settle(pod, placed)
	h.books.Pods.Show(pod)
}

// endHold drops the reservation of a bound pod once the watch has shown it on a node, or its deletion.
func (h *history) endHold(name string) {
	held, pod := h.truth.holds[name], h.truth.pods[name]
	if held != nil && held.bound && (pod == nil || pod.UID != held.uid || pod.Spec.NodeName != "") {
		delete(h.truth.holds, name)
	}
}

func (h *history) newPod(name string) *v1.Pod {
	cpu := []string{"0", "1", "2", "3", "900000000000000"}[min(h.rng.IntN(9), h.rng.IntN(9), 4)]
	b := schedtest.MakePod().Name(name).UID(h.fresh("u")).Req(schedtest.Resources{"cpu": cpu})
	if h.rng.IntN(8) > 0 {
		b.Group(h.groupName())
	}
	if h.rng.IntN(6) == 0 {
		b.Node(h.nodeName())
	}
	if h.rng.IntN(5) == 0 {
		b.Volume(fmt.Sprintf("c%d", h.rng.IntN(2)))
	}
	return b.Obj()
}

func showPod(h *history) {
	name := fmt.Sprintf("p%d", h.rng.IntN(6))
	if former := h.truth.pods[name]; former != nil {
		pod := former.DeepCopy()
		pod.Labels["seen"] = h.fresh("")
		h.show(pod)
		return
	}
	h.show(h.newPod(name))
}

func (h *history) change(change func(*v1.Pod)) {
	if name, ok := pick(h, h.truth.pods); ok {
		pod := h.truth.pods[name].DeepCopy()
		change(pod)
		h.show(pod)
	}
}

// resync shows an unchanged pod again, as an informer does when it lists the pods again.
func resync(h *history) {
	if name, ok := pick(h, h.truth.pods); ok {
		h.show(h.truth.pods[name])
	}
}

func runPod(h *history) {
	h.change(func(pod *v1.Pod) {
		if pod.Spec.NodeName != "" {
			pod.Status.Phase = []v1.PodPhase{v1.PodRunning, v1.PodRunning, v1.PodRunning, v1.PodSucceeded, v1.PodFailed}[h.rng.IntN(5)]
		}
	})
}

// runGang shows a PodGroup and all its pods running. Less is compared of the copies of such jobs.
func runGang(h *history) {
	group := h.newGroup(h.groupName())
	if former := h.truth.groups[group.Name]; former != nil {
		group = former.DeepCopy()
	}
	group.Status.Phase = v1beta1.PodGroupRunning
	h.putGroup(group)
	h.truth.settleGangs()
	for _, name := range slices.Sorted(maps.Keys(h.truth.pods)) {
		if pod := h.truth.pods[name].DeepCopy(); pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == group.Name && pod.DeletionTimestamp == nil {
			pod.Spec.NodeName, pod.Status.Phase = stdcmp.Or(pod.Spec.NodeName, h.nodeName()), v1.PodRunning
			h.show(pod)
		}
	}
}

func endPod(h *history) {
	grace := []time.Duration{0, 30 * time.Second, 3 * time.Minute, 20 * time.Minute}[h.rng.IntN(4)]
	due := metav1.NewTime(h.truth.now.Add(grace))
	h.change(func(pod *v1.Pod) { pod.DeletionTimestamp = &due })
}

// pass advances the clock. The books notice this at the next snapshot.
func pass(h *history) {
	d := time.Duration(h.rng.IntN(8)) * time.Minute
	h.note("%s go by", d)
	h.truth.now = h.truth.now.Add(d)
}

func regroupPod(h *history) {
	h.change(func(pod *v1.Pod) {
		pod.Annotations = maps.Clone(pod.Annotations)
		if h.rng.IntN(3) == 0 {
			delete(pod.Annotations, v1beta1.KubeGroupNameAnnotationKey)
			return
		}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.KubeGroupNameAnnotationKey, h.groupName())
	})
}

// resizePod changes the requests of a pod, whether it has a node or not.
func resizePod(h *history) {
	cpu := resource.MustParse([]string{"0", "1", "2", "3"}[h.rng.IntN(4)])
	h.change(func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: cpu} })
}

// replacePod deletes a pod and starts another one with its name. The watch shows only the new pod.
func replacePod(h *history) {
	if name, ok := pick(h, h.truth.pods); ok {
		h.show(h.newPod(name))
	}
}

// hideFormerPod shows the late deletion of a pod that another one has replaced.
func hideFormerPod(h *history) {
	if name, ok := pick(h, h.truth.pods); ok {
		former := h.truth.pods[name].DeepCopy()
		former.UID = "former"
		h.note("hide the former pod %s", name)
		h.books.Pods.Hide(former)
	}
}

func hidePod(h *history) {
	name, ok := pick(h, h.truth.pods)
	if !ok {
		return
	}
	pod := h.truth.pods[name]
	h.note("hide pod %s", name)
	delete(h.truth.pods, name)
	delete(h.truth.victims, pod.UID)
	delete(h.truth.read, pod.UID)
	h.endHold(name)
	h.books.Pods.Hide(pod)
}

func reserve(h *history) {
	name, ok := pick(h, h.truth.pods)
	if !ok {
		return
	}
	pod, node := h.truth.pods[name], h.nodeName()
	task := api.NewTaskInfo(pod)
	_, status := h.truth.where(pod)
	used, _ := h.truth.used(node)
	possible := status == api.Pending && h.truth.holds[name] == nil && h.truth.nodes[node] != nil && task.Job != "" &&
		used+cpuOf(pod) <= float64(h.truth.nodes[node].Status.Allocatable.Cpu().MilliValue())
	refused := h.rng.IntN(5) == 0
	err := h.books.Pods.Reserve(task, node, func(*api.TaskInfo) (Reservation, error) {
		if refused {
			return Reservation{}, errors.New("refused")
		}
		return Reservation{Owner: pod.UID, NUMA: &api.TopologyInfo{}, Decided: map[string]string{"decided": node}}, nil
	})
	h.note("reserve pod %s on %s: %v", name, node, err)
	if (err == nil) != (possible && !refused) {
		h.t.Errorf("reserving pod %s on %s: error %v, possible %v, refused %v", name, node, err, possible, refused)
	}
	if err == nil {
		h.truth.holds[name] = &heldPod{uid: pod.UID, node: node, cpu: cpuOf(pod)}
	}
}

func bind(h *history) {
	name, ok := pick(h, h.truth.holds)
	if !ok {
		return
	}
	h.note("bind pod %s", name)
	held := h.truth.holds[name]
	h.books.Pods.Bind(schedtest.Namespace+"/"+api.TaskID(name), types.UID("stranger"))
	h.books.Pods.Bind(schedtest.Namespace+"/"+api.TaskID(name), held.uid)
	held.bound = true
	h.endHold(name)
	if pod := h.truth.pods[name]; pod != nil && h.truth.holds[name] == nil { // The watch showed the pod on a node before.
		h.truth.settle(pod, true)
	}
}

func release(h *history) {
	name, ok := pick(h, h.truth.holds)
	if !ok {
		return
	}
	h.note("release pod %s", name)
	h.books.Pods.Release(schedtest.Namespace+"/"+api.TaskID(name), types.UID("stranger"))
	h.books.Pods.Release(schedtest.Namespace+"/"+api.TaskID(name), h.truth.holds[name].uid)
	delete(h.truth.holds, name)
	if pod := h.truth.pods[name]; pod != nil {
		h.truth.settle(pod, true)
	}
}

// seeBound lets the watch show a reserved pod on a node: the reserved node, or a random node to which another client
// has bound the pod.
func seeBound(h *history) {
	name, ok := pick(h, h.truth.holds)
	if !ok || h.truth.pods[name] == nil || h.truth.pods[name].Spec.NodeName != "" {
		return
	}
	pod := h.truth.pods[name].DeepCopy()
	pod.Spec.NodeName = h.truth.holds[name].node
	if h.rng.IntN(4) == 0 {
		pod.Spec.NodeName = h.nodeName()
	}
	h.show(pod)
}

func evict(h *history) {
	name, ok := pick(h, h.truth.pods)
	if !ok {
		return
	}
	pod := h.truth.pods[name]
	_, _, err := h.books.Pods.Evict(api.NewTaskInfo(pod))
	h.note("evict pod %s: %v", name, err)
	if (err == nil) != (pod.Spec.NodeName != "") {
		h.t.Errorf("evicting pod %s on %q: error %v", name, pod.Spec.NodeName, err)
	}
	if err == nil {
		h.truth.victims[pod.UID], h.truth.evicted[pod.UID] = true, h.truth.now
	}
}

func spare(h *history) {
	for _, name := range slices.Sorted(maps.Keys(h.truth.pods)) {
		if pod := h.truth.pods[name]; h.truth.victims[pod.UID] {
			h.note("spare pod %s", name)
			delete(h.truth.victims, pod.UID)
			h.truth.settle(pod, true)
			h.books.Pods.Spare(pod)
			return
		}
	}
}
