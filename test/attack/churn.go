// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// churn returns attacks by many writes.
func churn() []attack {
	return []attack{
		{
			name: "podgroup-churn", run: podGroupChurn,
			does: "creates and deletes PodGroups as fast as the API server takes them",
			harm: "each write starts a cycle or fills one of the scheduler's queues",
		},
		{
			name: "podgroup-flood", run: podGroupFlood,
			does: "creates up to 5,000 PodGroups without pods, as fast as the API server takes them, and keeps them",
			harm: "each cycle processes all of them, and the memory grows",
		},
		{
			name: "gang-churn", run: gangChurn,
			does: "creates gangs of three pods and pods without a gang, and deletes them at once, bound or not",
			harm: "binds, events and statuses of short-lived gangs use up the rate limit of writes",
		},
		{
			name: "minimum-storm", run: minimumStorm,
			does: "patches the minimum of twenty waiting gangs up and down, as fast as the API server takes it",
			harm: "each patch ends a wait, so that gangs that cannot fit are tried again and again",
		},
		{
			name: "annotation-storm", run: annotationStorm,
			does: "patches labels and annotations of the pods and the PodGroup of a waiting gang of fifty",
			harm: "each patch makes the scheduler treat the gang as new",
		},
		{
			name: "status-storm", run: statusStorm,
			does: "keeps changing phases, counters and conditions of PodGroups, also of running gangs",
			harm: "the scheduler writes its status again for each forged one",
		},
		{
			name: "flipped-member", run: flippedMember,
			does: "keeps changing the gang annotations of one pod of a gang of 200, declared with Koordinator's annotations",
			harm: "each change makes the controller write to all other members",
		},
		{
			name: "restless-waiters", run: restlessWaiters,
			does: "submits 400 gangs that fit nowhere, and keeps changing the number of their pods",
			harm: "searches take turns, and the victim's never has one",
		},
		{
			name: "lost-members", run: lostMembers,
			does: "deletes members of running gangs and creates replacements that fit nowhere",
			harm: "partially bound gangs go before all others",
		},
		{
			name: "watched-kinds", run: watchedKinds,
			does: "writes ConfigMaps of 900 kB, services and disruption budgets, which plugins watch",
			harm: "the scheduler keeps copies of all of them",
		},
	}
}

func podGroupChurn(ctx context.Context, t *tenant) error {
	t.storm(ctx, func(n int) error {
		g := gang{name: fmt.Sprintf("churn-%d", n), min: 1}
		if err := t.createGroup(ctx, g); err != nil {
			return err
		}
		return t.deleteGroup(ctx, g.name)
	})
	return nil
}

func podGroupFlood(ctx context.Context, t *tenant) error {
	t.each(ctx, 5000, func(n int) error { return t.createGroup(ctx, gang{name: fmt.Sprintf("flood-%d", n), min: 1}) })
	return hold(ctx)
}

func gangChurn(ctx context.Context, t *tenant) error {
	t.storm(ctx, func(n int) error {
		if n%2 == 0 {
			name := fmt.Sprintf("alone-%d", n)
			if err := t.createPod(ctx, newPod(name)); err != nil {
				return err
			}
			return t.deletePod(ctx, name)
		}
		g := gang{name: fmt.Sprintf("short-%d", n), size: 3}
		if err := t.createGroup(ctx, g); err != nil {
			return err
		}
		for i := range g.size {
			if err := t.createPod(ctx, g.member(i)); err != nil {
				return err
			}
		}
		for i := range g.size {
			if err := t.deletePod(ctx, g.member(i).Name); err != nil {
				return err
			}
		}
		return t.deleteGroup(ctx, g.name)
	})
	return nil
}

func minimumStorm(ctx context.Context, t *tenant) error {
	const waiting = 20
	name := func(n int) string { return fmt.Sprintf("minimum-%d", n%waiting) }
	for n := range waiting {
		t.submit(ctx, impossible(name(n)))
	}
	t.storm(ctx, func(n int) error {
		return t.patchGroup(ctx, name(n), fmt.Sprintf(`{"spec": {"minMember": %d}}`, nodeCount+1-n/waiting%2))
	})
	return nil
}

func annotationStorm(ctx context.Context, t *tenant) error {
	g := impossible("notes")
	g.size = 50
	t.submit(ctx, g)
	t.storm(ctx, func(n int) error {
		patch := fmt.Sprintf(`{"metadata": {"labels": {"l": "%d"}, "annotations": {"a": "%d"}}}`, n, n)
		if n%5 == 0 {
			return t.patchGroup(ctx, g.name, patch)
		}
		return t.patchPod(ctx, g.member(n%g.size).Name, patch)
	})
	return nil
}

func statusStorm(ctx context.Context, t *tenant) error {
	const each = 5
	for n := range each {
		waits := impossible(fmt.Sprintf("waits-%d", n))
		t.submit(ctx, gang{name: fmt.Sprintf("runs-%d", n), size: 2}, waits)
	}
	phases := []string{"Pending", "Inqueue", "Running", "Unknown", "Completed"}
	t.storm(ctx, func(n int) error {
		name := fmt.Sprintf("%s-%d", []string{"runs", "waits"}[n%2], n/2%each)
		return t.patchGroup(ctx, name, statusPatch(phases[n%len(phases)], v1beta1.PodGroupCondition{
			Type: "Unschedulable", Status: corev1.ConditionTrue, Reason: "NotEnoughResources", TransitionID: fmt.Sprint(n), Message: strings.Repeat("x", n%500),
			LastTransitionTime: metav1.Now(),
		}))
	})
	return nil
}

// statusPatch returns a merge patch of a PodGroup's status.
func statusPatch(phase string, conditions ...v1beta1.PodGroupCondition) string {
	text, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": phase, "running": 100_000, "succeeded": 100_000, "conditions": conditions,
	}})
	if err != nil {
		panic(err) // Conditions contain only text and times.
	}
	return string(text)
}

func flippedMember(ctx context.Context, t *tenant) error {
	const size = 200
	member := func(i int) *corev1.Pod {
		pod := newPod(fmt.Sprintf("flip-%d", i))
		pod.Annotations[gangs.NameAnnotation], pod.Annotations[gangs.MinAvailableAnnotation] = "flip", fmt.Sprint(size)
		ask(pod, corev1.ResourceCPU, nodeCPU)
		return pod
	}
	t.each(ctx, size, func(n int) error { return t.createPod(ctx, member(n)) })
	t.storm(ctx, func(n int) error {
		patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "%d", %q: "%ds"}}}`, gangs.MinAvailableAnnotation, size-n%2, gangs.WaitingTimeAnnotation, 60+n%2)
		return t.patchPod(ctx, member(0).Name, patch)
	})
	return nil
}

func restlessWaiters(ctx context.Context, t *tenant) error {
	const waiting = 400
	waits := func(n int) gang {
		return gang{name: fmt.Sprintf("restless-%d", n%waiting), size: 1, min: 2, cpu: "20"}
	}
	t.each(ctx, waiting, func(n int) error { return t.createGroup(ctx, waits(n)) })
	t.storm(ctx, func(n int) error {
		g, pod := waits(n), n/waiting%3
		if n/waiting >= 3 {
			_ = t.deletePod(ctx, g.member(pod).Name)
		}
		wide := g.member(pod)
		wide.Spec.NodeSelector["nowhere"] = "x"
		return t.createPod(ctx, wide)
	})
	return nil
}

func lostMembers(ctx context.Context, t *tenant) error {
	const running = 5
	g := func(n int) gang { return gang{name: fmt.Sprintf("lost-%d", n%running), size: 4} }
	for n := range running {
		t.submit(ctx, g(n))
	}
	n := 0
	return repeat(ctx, nap, func() {
		pod := g(n).member(n / running % 3)
		ask(pod, corev1.ResourceCPU, "1000")
		t.note(ctx, t.deletePod(ctx, pod.Name))
		t.note(ctx, t.createPod(ctx, pod))
		n++
	})
}

func watchedKinds(ctx context.Context, t *tenant) error {
	const kept = 60
	large := strings.Repeat("x", 900<<10)
	core := t.kube.CoreV1()
	t.storm(ctx, func(n int) error {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("watched-%d", n%kept)}
		var err error
		switch n / kept {
		case 0:
			_, err = core.ConfigMaps(tenantNamespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"x": large}}, metav1.CreateOptions{})
		case 1:
			_, err = core.Services(tenantNamespace).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
				ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"x": meta.Name},
			}}, metav1.CreateOptions{})
		case 2:
			_, err = t.kube.PolicyV1().PodDisruptionBudgets(tenantNamespace).Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{}, MinAvailable: &intstr.IntOrString{IntVal: 1 << 30},
			}}, metav1.CreateOptions{})
		default:
			meta.Labels = map[string]string{"n": fmt.Sprint(n)}
			_, err = core.ConfigMaps(tenantNamespace).Update(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"x": large}}, metav1.UpdateOptions{})
		}
		return err
	})
	return nil
}
