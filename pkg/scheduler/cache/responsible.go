// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"stathat.com/c/consistent"
)

// Environment variables for several schedulers that share a cluster by hash. Their names are upstream's.
const (
	multiScheduler = "MULTI_SCHEDULER_ENABLE"
	ownPodName     = "SCHEDULER_POD_NAME"
	schedulerCount = "SCHEDULER_NUM"
)

// responsible decides which nodes and pods this scheduler handles.
type responsible struct {
	schedulerNames []string
	// selectors are labels, as name:value. A node must have one of these labels; an empty set admits all nodes.
	selectors map[string]bool
	// ring assigns each object, by hash, to one of the schedulers that share the cluster; nil for a single scheduler.
	// self is this scheduler's name in the ring.
	ring *consistent.Consistent
	self string
}

func newResponsible(schedulerNames, nodeSelectors []string) (*responsible, error) {
	r := &responsible{schedulerNames: schedulerNames, selectors: map[string]bool{}}
	for _, selector := range nodeSelectors {
		if name, value, found := strings.Cut(selector, ":"); found && value != "" {
			r.selectors[strings.TrimSpace(name)+":"+strings.TrimSpace(value)] = true
		}
	}
	if os.Getenv(multiScheduler) != "true" {
		return r, nil
	}
	r.self = os.Getenv(ownPodName)
	at := strings.LastIndex(r.self, "-")
	if at < 0 {
		return nil, fmt.Errorf("%s is %q: with %s=true it must be the name of a pod of a StatefulSet, which ends in - and a number", ownPodName, r.self, multiScheduler)
	}
	count, err := strconv.Atoi(os.Getenv(schedulerCount))
	if err != nil {
		count = 1
	}
	r.ring = consistent.New()
	for i := range count {
		r.ring.Add(fmt.Sprintf("%s-%d", r.self[:at], i))
	}
	return r, nil
}

// forName reports whether the ring assigns an object of this name to this scheduler.
func (r *responsible) forName(name string) bool {
	if r.ring == nil {
		return true
	}
	owner, err := r.ring.Get(name)
	return err == nil && owner == r.self
}

// forOwned reports whether the ring assigns the object to this scheduler. The name of the object's first owner decides,
// or else the object's own name. So objects of one gang go to the same scheduler.
func (r *responsible) forOwned(object metav1.Object) bool {
	if owners := object.GetOwnerReferences(); len(owners) > 0 {
		return r.forName(owners[0].Name)
	}
	return r.forName(object.GetName())
}

// schedules reports whether the pod's schedulerName selects this scheduler.
func (r *responsible) schedules(pod *v1.Pod) bool {
	return slices.Contains(r.schedulerNames, pod.Spec.SchedulerName)
}

// forPod reports whether the books hold the pod: this scheduler has to schedule it, or it is on one of this scheduler's
// nodes.
func (r *responsible) forPod(pod *v1.Pod) bool {
	if r.schedules(pod) && r.forOwned(pod) {
		return true
	}
	return pod.Spec.NodeName != "" && r.forName(pod.Spec.NodeName)
}

// forNode reports whether sessions may place pods on the node.
func (r *responsible) forNode(node *v1.Node) bool {
	if !r.forName(node.Name) {
		return false
	}
	if len(r.selectors) == 0 {
		return true
	}
	for name, value := range node.Labels {
		if r.selectors[name+":"+value] {
			return true
		}
	}
	return false
}
