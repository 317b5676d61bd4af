// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// bulk returns attacks with objects that are large or expensive to process.
func bulk() []attack {
	return []attack{
		{
			name: "huge-annotations", run: hugeAnnotations,
			does: "creates 300 PodGroups with annotations of 250 kB and changes them",
			harm: "the scheduler keeps and copies them, and writes them with each status",
		},
		{
			name: "many-requirements", run: manyRequirements,
			does: "submits gangs whose pods have 100 requirements on nodes each, the limit, all different, and that fit nowhere",
			harm: "each cycle checks each requirement for each pod and node",
		},
		{
			name: "unlike-kinds", run: unlikeKinds,
			does: "submits 20 gangs of 100 pods of 100 kinds each that fit nowhere, and each second changes one pod and starts a small one",
			harm: "no verdict on a pod can be reused for another pod, or after a node has changed",
		},
		{
			name: "unmatched-kinds", run: unmatchedKinds,
			does: "submits 20 gangs of 100 pods of 100 kinds each that have room, except that one pod needs a label that no node has, and each second starts a small pod",
			harm: "each gang is tried in full in each cycle",
		},
		{
			name: "unknown-resources", run: unknownResources,
			does: "submits 100 gangs that each request 90 kinds of resources which no node has",
			harm: "sums over all gangs contain all of these kinds",
		},
		{
			name: "affinity-terms", run: affinityTerms,
			does: "runs pods with 44 terms of affinity and anti-affinity to pods of its namespace, and submits 200 more that stay pending",
			harm: "each term is matched against each pod of the cluster",
		},
		{
			name: "absurd-amounts", run: absurdAmounts,
			does: "requests 1e30 cpu, 8Ei of memory, 2^31-1 members and negative amounts, in PodGroups and pods",
			harm: "sums overflow, and with them the shares of other queues",
		},
		{
			name: "near-fit", run: nearFit,
			does: "submits ten gangs with different members that would fill all nodes, if half a cpu were not missing",
			harm: "each cycle spends the longest allowed time on the search for a packing",
		},
	}
}

func hugeAnnotations(ctx context.Context, t *tenant) error {
	large := strings.Repeat("x", 250_000)
	huge := func(n int) gang {
		return gang{name: fmt.Sprintf("huge-%d", n), min: 1, group: func(group *v1beta1.PodGroup) { group.Annotations["large"] = large }}
	}
	t.each(ctx, 300, func(n int) error {
		g := huge(n)
		if n%10 == 0 { // Some of them have waiting pods.
			g.size = 1
			pod := g.member(0)
			pod.Spec.NodeSelector["nowhere"] = "x"
			t.note(ctx, t.createPod(ctx, pod))
		}
		return t.createGroup(ctx, g)
	})
	n := 0
	return repeat(ctx, nap, func() {
		t.note(ctx, t.patchGroup(ctx, fmt.Sprintf("huge-%d", n%300), fmt.Sprintf(`{"metadata": {"labels": {"n": "%d"}}}`, n)))
		n++
	})
}

func manyRequirements(ctx context.Context, t *tenant) error {
	const requirements = 100 // the limit
	for n := range 5 {
		t.submit(ctx, gang{name: fmt.Sprintf("requires-%d", n), size: 20, cpu: "31", pod: func(i int, pod *corev1.Pod) {
			var expressions []corev1.NodeSelectorRequirement
			for k := range requirements {
				expressions = append(expressions, corev1.NodeSelectorRequirement{Key: fmt.Sprintf("k%d", k), Operator: corev1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("%d-%d", n, i)}})
			}
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: expressions}},
			}}}
		}})
	}
	return hold(ctx)
}

func unlikeKinds(ctx context.Context, t *tenant) error {
	unlike := func(n int) gang {
		return gang{name: fmt.Sprintf("unlike-%d", n), size: 100, pod: func(i int, pod *corev1.Pod) {
			ask(pod, corev1.ResourceCPU, fmt.Sprintf("%dm", 4000+100*i+n))
			ask(pod, corev1.ResourceMemory, fmt.Sprintf("%dMi", 64+i))
		}}
	}
	for n := range 20 {
		t.submit(ctx, unlike(n))
	}
	return startSmallPods(ctx, t, func(n int) {
		t.note(ctx, t.deletePod(ctx, unlike(n%20).member(n%100).Name))
		t.note(ctx, t.createPod(ctx, unlike(n%20).member(n%100)))
	})
}

func unmatchedKinds(ctx context.Context, t *tenant) error {
	for n := range 20 {
		t.submit(ctx, gang{name: fmt.Sprintf("unmatched-%d", n), size: 100, pod: func(i int, pod *corev1.Pod) {
			ask(pod, corev1.ResourceCPU, fmt.Sprintf("%dm", 10+i))
			ask(pod, corev1.ResourceMemory, fmt.Sprintf("%dMi", 64+n))
			if i == 0 {
				pod.Spec.NodeSelector = map[string]string{"example.com/rack": "none"}
			}
		}})
	}
	return startSmallPods(ctx, t, func(int) {})
}

// startSmallPods calls the function also once a second, with the number of earlier calls. After each call it starts a
// small pod. It keeps only the last 30 of these pods.
func startSmallPods(ctx context.Context, t *tenant, also func(n int)) error {
	const running = 30
	small := gang{name: "small", min: 1, cpu: "10m"}
	t.note(ctx, t.createGroup(ctx, small))
	n := 0
	return repeat(ctx, time.Second, func() {
		also(n)
		if n >= running {
			t.note(ctx, t.deletePod(ctx, small.member(n-running).Name))
		}
		t.note(ctx, t.createPod(ctx, small.member(n)))
		n++
	})
}

func unknownResources(ctx context.Context, t *tenant) error {
	for n := range 100 {
		least := corev1.ResourceList{}
		g := gang{name: fmt.Sprintf("unknown-%d", n), size: 1}
		g.pod = func(_ int, pod *corev1.Pod) {
			for k := range 90 {
				ask(pod, corev1.ResourceName(fmt.Sprintf("example.com/kind-%d-%d", n, k)), "1")
			}
		}
		for k := range 90 {
			least[corev1.ResourceName(fmt.Sprintf("example.com/kind-%d-%d", n, k))] = resource.MustParse("1")
		}
		g.group = func(group *v1beta1.PodGroup) { group.Spec.MinResources = &least }
		t.submit(ctx, g)
	}
	return hold(ctx)
}

func affinityTerms(ctx context.Context, t *tenant) error {
	const terms = 22 // of each kind, so that all are within the limit of 50
	term := func(n, k int) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			TopologyKey: corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kind", Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprintf("%d-%d", n, k)}},
			}},
		}
	}
	pod := func(name string, n int) *corev1.Pod {
		pod := newPod(name)
		ask(pod, corev1.ResourceCPU, "10m")
		preferred, anti := &corev1.PodAffinity{}, &corev1.PodAntiAffinity{}
		for k := range terms {
			preferred.PreferredDuringSchedulingIgnoredDuringExecution = append(preferred.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term(n, k)})
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, term(n, k))
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: preferred, PodAntiAffinity: anti}
		return pod
	}
	t.each(ctx, 50, func(n int) error { return t.createPod(ctx, pod(fmt.Sprintf("runs-%d", n), n)) })
	t.each(ctx, 200, func(n int) error {
		waits := pod(fmt.Sprintf("waits-%d", n), n)
		waits.Spec.NodeSelector["nowhere"] = "x"
		return t.createPod(ctx, waits)
	})
	return hold(ctx)
}

func absurdAmounts(ctx context.Context, t *tenant) error {
	amounts := []string{"1e30", "8Ei", "9223372036854775807", "-1", "-8Ei", "1n"}
	named := func(n int) gang {
		amount := resource.MustParse(amounts[n%len(amounts)])
		g := gang{name: fmt.Sprintf("absurd-%d", n), size: 1, min: []int{1, 1<<31 - 1, 0}[n%3]}
		g.group = func(group *v1beta1.PodGroup) {
			group.Spec.MinResources = &corev1.ResourceList{corev1.ResourceCPU: amount, corev1.ResourceMemory: amount, "example.com/x": amount}
			group.Spec.MinTaskMember = map[string]int32{"a": -2, "b": 1<<31 - 1}
		}
		g.pod = func(_ int, pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: amount, corev1.ResourceMemory: amount}
		}
		return g
	}
	for n := range 60 {
		t.submit(ctx, named(n))
	}
	return repeat(ctx, nap, func() {
		n := t.intN(60)
		t.note(ctx, t.patchGroup(ctx, named(n).name, fmt.Sprintf(`{"spec": {"minMember": %d}}`, 1<<31-1-n)))
	})
}

func nearFit(ctx context.Context, t *tenant) error {
	// Two members fill a node, and no two pairs are equal.
	for n := range 10 {
		t.submit(ctx, gang{name: fmt.Sprintf("near-%d", n), size: 2 * nodeCount, pod: func(i int, pod *corev1.Pod) {
			pair := 1000 + 500*(i/2) + n
			if i%2 == 1 {
				pair = nodeCPUs*1000 - pair
			}
			if i == 0 {
				pair += 500
			}
			ask(pod, corev1.ResourceCPU, fmt.Sprintf("%dm", pair))
		}})
	}
	return hold(ctx)
}
