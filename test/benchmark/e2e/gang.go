// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// namespace is the namespace of the load. Its service account exists when the control plane is ready.
const namespace = metav1.NamespaceDefault

const (
	// clusterLabel has the name of a node's InfiniBand cluster. modeAnnotation states that a gang requires one
	// cluster.
	clusterLabel   = "ibcluster"
	modeAnnotation = "ibcluster.volcano-prebind.io/mode"
	// rankAnnotation has a pod's rank in its gang.
	rankAnnotation = "batch.kubernetes.io/job-completion-index"
)

// gang is a set of pods that are placed together.
type gang struct {
	name string
	// podGroup is nil for a scheduler without PodGroups.
	podGroup *v1beta1.PodGroup
	pods     []*corev1.Pod
	binds    *binds
	// clock is the time when the gang's last object, or in the pglast mode its PodGroup, was sent to the API server.
	clock time.Time
}

// latency returns the time from the gang's clock to its last bind.
func (g *gang) latency() time.Duration { return g.binds.end().Sub(g.clock) }

// moveTo sets the namespace of the gang's objects.
func (g *gang) moveTo(namespace string) {
	if g.podGroup != nil {
		g.podGroup.Namespace = namespace
	}
	for _, pod := range g.pods {
		pod.Namespace = namespace
	}
}

// newGang returns the objects of a gang. nodeOf, if not nil, returns the node of its i-th pod.
func (p *plan) newGang(scheduler, name string, size int, nodeOf func(i int) string) *gang {
	g := &gang{name: name}
	if usesPodGroups(scheduler) {
		g.podGroup = &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1beta1.PodGroupSpec{MinMember: int32(size), Queue: controlplane.DefaultQueue},
		}
		if p.ibClusters > 0 {
			metav1.SetMetaDataAnnotation(&g.podGroup.ObjectMeta, modeAnnotation, "required")
		}
	}
	for i := range size {
		annotations := map[string]string{}
		if g.podGroup != nil {
			annotations[v1beta1.KubeGroupNameAnnotationKey] = name
		}
		if p.ibClusters > 0 {
			annotations[rankAnnotation] = strconv.Itoa(i)
		}
		pod := newPod(fmt.Sprintf("%s-%03d", name, i), schedulerName(scheduler), annotations)
		switch {
		case nodeOf != nil:
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodeOf(i)}
		case p.preempts():
			pod.Spec.NodeSelector = map[string]string{poolLabel: freePool}
		}
		p.claim(pod)
		g.pods = append(g.pods, pod)
	}
	g.binds = newBinds(len(g.pods))
	return g
}

func newPod(name, scheduler string, annotations map[string]string) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	noToken, noGrace := false, int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{
			SchedulerName:                 scheduler,
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  &noToken,
			TerminationGracePeriodSeconds: &noGrace,
			Containers: []corev1.Container{{
				Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests},
			}},
		},
	}
}

// load returns the gangs of a trial. Pods are assigned to the nodes in turn if each has its own node, as raw always
// requires.
func load(key trialKey, p *plan, nodes []string) []*gang {
	gangs := make([]*gang, p.gangs)
	for i := range gangs {
		var nodeOf func(int) string
		if key.Placement != full || key.Scheduler == raw {
			nodeOf = func(member int) string { return nodes[(i*p.gangSize+member)%len(nodes)] }
		}
		gangs[i] = p.newGang(key.Scheduler, fmt.Sprintf("gang-%04d", i), p.gangSize, nodeOf)
		if p.preempts() {
			makeUrgent(gangs[i])
		}
	}
	return gangs
}
