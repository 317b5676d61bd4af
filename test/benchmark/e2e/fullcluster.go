// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

const (
	// poolLabel divides the nodes. Those of fullPool run fillers until gangs preempt them. Those of freePool are
	// beside them, for the warm-up gang and the small gangs.
	poolLabel = "pool"
	fullPool  = "full"
	freePool  = "free"

	// urgent is the name of the gangs' PriorityClass. All other pods have priority 0.
	urgent         = "urgent"
	urgentPriority = 1000

	// smallNamespace is the namespace of the small gangs.
	smallNamespace = "small"

	// fillerLabel marks the pods that fill the cluster. fillerGang of them share a PodGroup, which needs one.
	fillerLabel = "filler"
	fillerGang  = 50
)

// freeNodes returns the number of nodes beside the full ones. They have room for all small gangs.
func (p *plan) freeNodes() int {
	const spare = 2
	return ((p.loneGangs+smallGangs)*p.loneSize+nodeCPUs-1)/nodeCPUs + spare
}

// fillers returns the number of pods that fill the cluster.
func (p *plan) fillers() int { return p.nodes * (nodeCPUs / p.fillerCPUs) }

// evictionsNeeded returns the least number of fillers that must go so that the gangs fit. Each pod of a gang requests
// one CPU, so gangs can share what a filler leaves.
func (p *plan) evictionsNeeded() int { return (p.pods() + p.fillerCPUs - 1) / p.fillerCPUs }

// fillerGangs returns gangs of running pods that fill the nodes.
func (p *plan) fillerGangs(scheduler string, nodes []string) []*gang {
	perNode := nodeCPUs / p.fillerCPUs
	var gangs []*gang
	for first := 0; first < len(nodes)*perNode; first += fillerGang {
		g := p.newGang(scheduler, fmt.Sprintf("filler-%04d", first/fillerGang), min(fillerGang, len(nodes)*perNode-first), nil)
		if g.podGroup != nil {
			g.podGroup.Spec.MinMember = 1
		}
		for i, pod := range g.pods {
			pod.Labels = map[string]string{fillerLabel: ""}
			pod.Spec.NodeName = nodes[(first+i)/perNode]
			pod.Spec.NodeSelector = nil
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewQuantity(int64(p.fillerCPUs), resource.DecimalSI)
			// kwok ends a deleted pod at once, but like a kubelet it does so after the deletion.
			pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(corev1.DefaultTerminationGracePeriodSeconds))
		}
		gangs = append(gangs, g)
	}
	return gangs
}

// makeUrgent gives the gang the high priority and the full nodes.
func makeUrgent(g *gang) {
	if g.podGroup != nil {
		g.podGroup.Spec.PriorityClassName = urgent
	}
	for _, pod := range g.pods {
		pod.Spec.PriorityClassName = urgent
		pod.Spec.NodeSelector[poolLabel] = fullPool
	}
}

// rawVictims returns the victims of the gangs' pods in a raw trial: each fillerCPUs of them share one.
func (p *plan) rawVictims(nodes []string) map[string]*rawVictim {
	victims := map[string]*rawVictim{}
	if !p.preempts() {
		return victims
	}
	var all []*rawVictim
	for _, g := range p.fillerGangs(raw, nodes[:p.nodes]) {
		for _, pod := range g.pods {
			all = append(all, &rawVictim{name: pod.Name})
		}
	}
	n := 0
	for _, g := range load(trialKey{Scheduler: raw, Placement: full}, p, nodes) {
		for _, pod := range g.pods {
			victims[pod.Name] = all[n/p.fillerCPUs]
			n++
		}
	}
	return victims
}

// nodeShapes describes the nodes.
func (p *plan) nodeShapes() []controlplane.NodeShape {
	all := controlplane.NodeShape{Count: p.nodes, CPU: fmt.Sprint(nodeCPUs), Pods: nodePods, IBClusters: p.ibClusters}
	if !p.preempts() {
		return []controlplane.NodeShape{all}
	}
	free := all
	free.Count, free.First = p.freeNodes(), p.nodes
	all.Labels, free.Labels = map[string]string{poolLabel: fullPool}, map[string]string{poolLabel: freePool}
	return []controlplane.NodeShape{all, free}
}

// fill creates the priority class and running pods that fill the nodes, and counts their evictions from then on.
func (s *testbed) fill(ctx context.Context) error {
	if !s.plan.preempts() {
		return nil
	}
	_, err := s.driver.kube.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: urgentPriority,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating priority class %s: %w", urgent, err)
	}
	if err := s.makeNamespace(ctx, smallNamespace); err != nil {
		return err
	}
	if _, err := s.driver.send(ctx, s.driver.everything(s.plan.fillerGangs(s.key.Scheduler, s.nodes[:s.plan.nodes]))); err != nil {
		return err
	}
	if err := s.awaitRunning(ctx); err != nil {
		return err
	}
	s.evictions, err = startEvictionWatch(ctx, s.driver.kube)
	return err
}

// makeNamespace creates the namespace, and waits for its service account.
func (s *testbed) makeNamespace(ctx context.Context, name string) error {
	if _, err := s.driver.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	for {
		_, err := s.driver.kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitRunning waits until no pod is pending.
func (s *testbed) awaitRunning(ctx context.Context) error {
	pending := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)).String()}
	for {
		list, err := s.driver.kube.CoreV1().Pods(namespace).List(ctx, pending)
		if err != nil {
			return fmt.Errorf("waiting for the pods that fill the cluster: %w", err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}
