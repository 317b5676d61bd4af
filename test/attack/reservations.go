// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// reservations returns attacks on the scheduler's reservations for waiting gangs.
func reservations() []attack {
	return []attack{
		{
			name: "starving-gang", run: starvingGang,
			does: "runs one pod of 1 cpu, and submits a gang that needs all nodes of the cluster, each for one member",
			harm: "nodes are reserved for the gang, and the pod never leaves its node",
		},
		{
			name: "forged-reservation", run: forgedReservation,
			does: "creates a PodGroup with the condition NodeReservation, dated 2020, for a gang that needs all nodes, and keeps writing it",
			harm: "nodes are reserved because a condition says so",
		},
		{
			name: "gangs-in-turn", run: gangsInTurn,
			does: "submits eight gangs that the cluster could never hold, and replaces one each second",
			harm: "nodes are reserved for one of them after the other",
		},
		{
			name: "pod-on-each-node", run: podOnEachNode,
			does: "runs a pod of 10m cpu on each node, and submits gangs that need one, two and all whole nodes",
			harm: "no node is ever empty, so that nodes stay reserved for ever",
		},
		{
			name: "stale-reservation", run: staleReservation,
			does: "submits gangs that need four whole nodes, and deletes three members of each",
			harm: "a reservation outlives its gang",
		},
		{
			name: "promised-room", run: promisedRoom,
			does: "creates PodGroups without pods, in a queue whose capability is a sixth of the cluster, and raises the minResources of admitted ones to nine times the cluster. In a queue without a limit, it keeps writing phase Inqueue and Running into PodGroups that ask for the whole cluster and ten times as much: one has no pods, the others have pods that select no node. It also submits a gang that needs all of every node, beside a pod that never ends",
			harm: "resources are reserved for gangs that never come, and no other gang is admitted",
		},
	}
}

// nap is the pause between two writes that the scheduler must see separately.
const nap = 200 * time.Millisecond

func starvingGang(ctx context.Context, t *tenant) error {
	t.submit(ctx, gang{name: "runs", size: 1}, starving("starves"))
	return hold(ctx)
}

func forgedReservation(ctx context.Context, t *tenant) error {
	forged := []v1beta1.PodGroupCondition{
		{Type: "NodeReservation", Status: corev1.ConditionTrue, Reason: "NodesReserved", LastTransitionTime: longAgo(), Message: "12 nodes are reserved for it"},
	}
	g := starving("forged")
	g.group = func(group *v1beta1.PodGroup) {
		group.Status = v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupInqueue, Conditions: forged}
	}
	t.submit(ctx, gang{name: "runs", size: 1}, g)
	return repeat(ctx, nap, func() {
		t.note(ctx, t.patchGroup(ctx, g.name, statusPatch("Inqueue", forged...)))
	})
}

func gangsInTurn(ctx context.Context, t *tenant) error {
	named := func(n int) gang { return impossible(fmt.Sprintf("turn-%d", n)) }
	const gangs = 8
	for n := range gangs {
		t.submit(ctx, named(n))
	}
	n := 0
	return repeat(ctx, time.Second, func() {
		old := named(n)
		t.note(ctx, t.deleteGroup(ctx, old.name))
		t.each(ctx, old.size, func(i int) error { return t.deletePod(ctx, old.member(i).Name) })
		t.submit(ctx, named(n+gangs))
		n++
	})
}

func podOnEachNode(ctx context.Context, t *tenant) error {
	small := func(i int, pod *corev1.Pod) { on(pod, nodeName(i)) }
	t.submit(ctx, gang{name: "small", size: nodeCount, min: 1, cpu: "10m", pod: small})
	one, two := starving("one"), starving("two")
	one.size, two.size = 1, 2
	t.submit(ctx, one, two, starving("all"))
	return hold(ctx)
}

func staleReservation(ctx context.Context, t *tenant) error {
	t.submit(ctx, gang{name: "small", size: nodeCount, min: 1, cpu: "10m", pod: func(i int, pod *corev1.Pod) { on(pod, nodeName(i)) }})
	n := 0
	return repeat(ctx, 2*starvationAfter, func() {
		g := starving(fmt.Sprintf("deserted-%d", n))
		g.size = 4
		t.submit(ctx, g)
		n++
		if n > 1 {
			t.each(ctx, 3, func(i int) error { return t.deletePod(ctx, fmt.Sprintf("deserted-%d-%d", n-2, i)) })
		}
	})
}

func promisedRoom(ctx context.Context, t *tenant) error {
	whole := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(nodeCount * nodeCPUs))}
	empty := func(name string, least corev1.ResourceList) gang {
		return gang{name: name, min: 1, queue: limitedQueue, group: func(group *v1beta1.PodGroup) { group.Spec.MinResources = &least }}
	}
	for n := range 10 {
		t.submit(ctx, empty(fmt.Sprintf("whole-%d", n), whole), empty(fmt.Sprintf("small-%d", n), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}))
	}
	forged := map[string]v1beta1.PodGroupPhase{"forged": v1beta1.PodGroupInqueue, "nowhere": v1beta1.PodGroupInqueue, "runs-nowhere": v1beta1.PodGroupRunning}
	tenTimes := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(nodeCount * nodeCPUs * 10))}
	for name, phase := range forged {
		g := gang{name: name, min: 1, group: func(group *v1beta1.PodGroup) { group.Spec.MinResources, group.Status.Phase = &whole, phase }}
		if name != "forged" {
			g.size, g.cpu = nodeCount*10, fmt.Sprint(nodeCPUs)
			g.pod = func(_ int, pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"example.com/is": "missing"} }
			g.group = func(group *v1beta1.PodGroup) { group.Spec.MinResources, group.Status.Phase = &tenTimes, phase }
		}
		t.submit(ctx, g)
	}
	t.submit(ctx, gang{name: "runs", size: 1}, gang{
		name: "waits", size: nodeCount, cpu: fmt.Sprint(nodeCPUs), group: func(group *v1beta1.PodGroup) { group.Spec.MinResources = &whole },
	})
	n := 0
	return repeat(ctx, nap, func() {
		patch := fmt.Sprintf(`{"spec": {"minResources": {"cpu": "%d"}}}`, nodeCount*nodeCPUs*9)
		t.note(ctx, t.patchGroup(ctx, fmt.Sprintf("small-%d", n%10), patch))
		for name, phase := range forged {
			t.note(ctx, t.patchGroup(ctx, name, statusPatch(string(phase))))
		}
		n++
	})
}

func longAgo() metav1.Time { return metav1.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }
