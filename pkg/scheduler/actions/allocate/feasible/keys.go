// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"hash/maphash"
	"maps"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Keys keeps the class keys of pods from session to session, because making them is most of what a class costs. A pod keeps its key while all that
// the key depends on stays as it was:
//
//   - The labels and the spec are the informer's, which replaces them and does not change them. Copies of the pod share them, so they are compared
//     by where they are. Keys holds on to them, so that no others come to the same place.
//   - The rest of the task, its annotations and the layers may differ from session to session. They are compared by value.
//   - The labels and annotations that tell pods apart are those of the session. When they change, all keys are made again.
//   - A key of claims is made in each session, because claims change without their pod.
//
// A pod or key that a session has not asked for is dropped when the next session begins.
type Keys struct {
	seed    maphash.Seed
	session int
	labels  *selectorLabelKeys
	pods    map[api.TaskID]*keptTask
	// classes are the keys by their text.
	classes map[string]*classKey
	buffer  []byte
}

// NewKeys returns a memory without keys. Fingerprints of classes are hashes by the seed.
func NewKeys(seed maphash.Seed) *Keys {
	return &Keys{seed: seed, pods: map[api.TaskID]*keptTask{}, classes: map[string]*classKey{}}
}

// classKey is a class key, and the parts of it that a task may change without its pod.
type classKey struct {
	text        string
	fingerprint uint64
	session     int

	namespace, role, zone string
	priority              int32
	preemptable           bool
	requests, launch      amounts
	signature             string
}

// keptTask is a task's class in a session, by number, and its key for the next one.
type keptTask struct {
	session, number int
	// key is nil if the next session is to make it.
	key         *classKey
	spec        sharedSpec
	annotations []annotation
}

type annotation struct{ key, value string }

// begin begins a session, which tells pods apart by these labels, and returns its number.
func (k *Keys) begin(labels *selectorLabelKeys) int {
	maps.DeleteFunc(k.pods, func(_ api.TaskID, kept *keptTask) bool { return kept.session != k.session })
	maps.DeleteFunc(k.classes, func(_ string, key *classKey) bool { return key.session != k.session })
	if !reflect.DeepEqual(k.labels, labels) {
		clear(k.pods)
	}
	k.labels = labels
	k.session++
	return k.session
}

// of returns the task's key, and keeps it for the next session.
func (k *Keys) of(kept *keptTask, task *api.TaskInfo, labels *selectorLabelKeys, claims claimKeys, signature string) *classKey {
	if kept.key != nil && kept.key.is(task, signature) && kept.spec.is(task.Pod) && kept.annotated(task.Pod.Annotations) {
		return kept.key
	}
	*kept = keptTask{}
	key := k.make(task, labels, claims, signature)
	if !hasClaims(task.Pod) {
		kept.key, kept.spec = key, sharedSpecOf(task.Pod)
		for name, value := range task.Pod.Annotations {
			kept.annotations = append(kept.annotations, annotation{name, value})
		}
	}
	return key
}

// is reports whether the key is that of a task with these parts, as far as they do not come from its pod.
func (c *classKey) is(task *api.TaskInfo, signature string) bool {
	return c.namespace == task.Namespace && c.role == task.TaskRole && c.zone == task.RevocableZone && c.priority == task.Priority &&
		c.preemptable == task.Preemptable && c.signature == signature && c.requests.are(task.Resreq) && c.launch.are(task.InitResreq)
}

// annotated reports whether the annotations are those of the session before. Maps are not compared by ranging over them, which takes most of the time.
func (t *keptTask) annotated(annotations map[string]string) bool {
	if len(annotations) != len(t.annotations) {
		return false
	}
	for _, a := range t.annotations {
		if value, ok := annotations[a.key]; !ok || value != a.value {
			return false
		}
	}
	return true
}

// make makes the task's key. Equal keys are one.
func (k *Keys) make(task *api.TaskInfo, labels *selectorLabelKeys, claims claimKeys, signature string) *classKey {
	k.buffer = append(appendClassKey(k.buffer[:0], task, labels, claims), signature...)
	if key, ok := k.classes[string(k.buffer)]; ok {
		return key
	}
	key := &classKey{
		text: string(k.buffer), fingerprint: maphash.Bytes(k.seed, k.buffer),
		namespace: task.Namespace, role: task.TaskRole, zone: task.RevocableZone, priority: task.Priority, preemptable: task.Preemptable,
		requests: amountsOf(task.Resreq), launch: amountsOf(task.InitResreq), signature: signature,
	}
	k.classes[key.text] = key
	return key
}

// amounts are those of a resource that a class key has.
type amounts struct {
	cpu, memory float64
	scalars     []scalar
}

type scalar struct {
	name  v1.ResourceName
	value float64
}

func amountsOf(r *api.Resource) amounts {
	a := amounts{cpu: r.MilliCPU, memory: r.Memory}
	for name, value := range r.ScalarResources {
		a.scalars = append(a.scalars, scalar{name, value})
	}
	return a
}

// are reports whether the resource has these amounts.
func (a *amounts) are(r *api.Resource) bool {
	if a.cpu != r.MilliCPU || a.memory != r.Memory || len(a.scalars) != len(r.ScalarResources) {
		return false
	}
	for _, s := range a.scalars {
		if value, ok := r.ScalarResources[s.name]; !ok || value != s.value {
			return false
		}
	}
	return true
}

// hasClaims reports whether the pod's key has what plugins say of claims.
func hasClaims(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if !madeOnNode(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return len(pod.Spec.ResourceClaims) > 0
}

// sharedSpec is where the labels and the spec of a pod are, as far as its class key depends on them.
type sharedSpec struct {
	labels, selector    map[string]string
	overhead            v1.ResourceList
	initial, containers array[v1.Container]
	volumes             array[v1.Volume]
	claims              array[v1.PodResourceClaim]
	tolerations         array[v1.Toleration]
	spread              array[v1.TopologySpreadConstraint]
	affinity            *v1.Affinity
	resources           *v1.ResourceRequirements
	runtime             *string
	priorityClass       string
	hostNetwork         bool
}

func sharedSpecOf(pod *v1.Pod) sharedSpec {
	spec := &pod.Spec
	return sharedSpec{
		labels: pod.Labels, selector: spec.NodeSelector, overhead: spec.Overhead,
		initial: arrayOf(spec.InitContainers), containers: arrayOf(spec.Containers), volumes: arrayOf(spec.Volumes), claims: arrayOf(spec.ResourceClaims),
		tolerations: arrayOf(spec.Tolerations), spread: arrayOf(spec.TopologySpreadConstraints),
		affinity: spec.Affinity, resources: spec.Resources, runtime: spec.RuntimeClassName, priorityClass: spec.PriorityClassName, hostNetwork: spec.HostNetwork,
	}
}

// is reports whether the pod has the same labels and spec.
func (s *sharedSpec) is(pod *v1.Pod) bool {
	spec := &pod.Spec
	return s.containers == arrayOf(spec.Containers) && sameMap(s.labels, pod.Labels) && sameMap(s.selector, spec.NodeSelector) &&
		sameMap(s.overhead, spec.Overhead) && s.initial == arrayOf(spec.InitContainers) && s.volumes == arrayOf(spec.Volumes) &&
		s.claims == arrayOf(spec.ResourceClaims) && s.tolerations == arrayOf(spec.Tolerations) && s.spread == arrayOf(spec.TopologySpreadConstraints) &&
		s.affinity == spec.Affinity && s.resources == spec.Resources && s.runtime == spec.RuntimeClassName &&
		s.priorityClass == spec.PriorityClassName && s.hostNetwork == spec.HostNetwork
}

// sameMap reports whether both are one map, or empty.
func sameMap[M ~map[K]V, K comparable, V any](l, r M) bool {
	return len(l) == 0 && len(r) == 0 || reflect.ValueOf(l).Pointer() == reflect.ValueOf(r).Pointer()
}

// array is where the elements of a slice are. Slices of one array are equal.
type array[T any] struct {
	first *T
	n     int
}

func arrayOf[T any](s []T) array[T] {
	if len(s) == 0 {
		return array[T]{}
	}
	return array[T]{&s[0], len(s)}
}
