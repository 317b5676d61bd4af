// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// evictions returns attacks on preemption, and attacks by pods that are being deleted.
func evictions() []attack {
	return []attack{
		{
			name: "lasting-victim", run: lastingVictim,
			does: "makes a gang of higher priority evict the tenant's own pods, which have a finalizer and are never removed",
			harm: "the gang is placed first for ever, and its other members pass all other gangs",
		},
		{
			name: "eviction-storm", run: evictionStorm,
			does: "keeps creating pods of low priority, which gangs of higher priority evict; half of these gangs can never be complete",
			harm: "each cycle evicts, and the loop has no time for others",
		},
		{
			name: "endless-leavers", run: endlessLeavers,
			does: "deletes running pods that have a grace period of a year, and submits a gang that would fit without them",
			harm: "the gang holds all other nodes until the pods end, and the pods do not count against their queue",
		},
	}
}

// endlessLeavers submits a gang that would fit without pods that are being deleted but run for another year.
func endlessLeavers(ctx context.Context, t *tenant) error {
	leavers := gang{name: "leaves", size: filled, cpu: "8", pod: func(i int, pod *corev1.Pod) {
		on(pod, nodeName(nodeCount-1-i))
		year := int64(365 * 24 * 3600)
		pod.Spec.TerminationGracePeriodSeconds = &year
		pod.Annotations["sandbox.volcano-prebind.io/keeps-grace-period"] = "true"
	}}
	t.submit(ctx, leavers)
	if err := t.waitBound(ctx, "leaves-0", "leaves-1"); err != nil {
		return err
	}
	t.each(ctx, leavers.size, func(i int) error { return t.deletePod(ctx, leavers.member(i).Name) })
	// Seven of the nodes are within the tenant's share, and the victim's wide gang needs more than the other five.
	t.submit(ctx, gang{name: "waits", size: 7, cpu: "26", pod: func(i int, pod *corev1.Pod) { on(pod, nodeName(nodeCount-1-i)) }})
	return hold(ctx)
}

// filled is the number of nodes that attacks on preemption fill, so that others have room.
const filled = 2

// filler returns a gang that fills a node with a pod of low priority.
func filler(name string, node int, finalizers ...string) gang {
	return gang{name: name, size: 1, cpu: "30", class: lowClass, pod: func(_ int, pod *corev1.Pod) {
		on(pod, nodeName(nodeCount-1-node))
		pod.Finalizers = finalizers
	}}
}

// evictor returns a gang of high priority with one pod for each filled node. With hopeless it also has pods that no
// node can hold.
func evictor(name string, hopeless bool) gang {
	g := gang{name: name, size: filled, cpu: "30", class: highClass, pod: func(i int, pod *corev1.Pod) {
		if i < filled {
			on(pod, nodeName(nodeCount-1-i))
		}
	}}
	if hopeless {
		g.size += nodeCount
	}
	return g
}

func lastingVictim(ctx context.Context, t *tenant) error {
	for n := range filled {
		t.submit(ctx, filler(fmt.Sprintf("stays-%d", n), n, "example.com/never"))
	}
	if err := t.waitBound(ctx, "stays-0-0", "stays-1-0"); err != nil {
		return err
	}
	urgent := evictor("urgent", false)
	urgent.size, urgent.min = 20, filled
	urgent.pod = func(i int, pod *corev1.Pod) { on(pod, nodeName(nodeCount-1-i%filled)) } // Others keep their nodes.
	t.submit(ctx, urgent)
	// Members beyond the minimum are created again and again.
	n := 0
	return repeat(ctx, nap, func() {
		t.note(ctx, t.deletePod(ctx, urgent.member(filled+n%10).Name))
		t.note(ctx, t.createPod(ctx, urgent.member(filled+n%10)))
		n++
	})
}

func evictionStorm(ctx context.Context, t *tenant) error {
	n := 0
	return repeat(ctx, time.Second/2, func() {
		for node := range filled {
			t.submit(ctx, filler(fmt.Sprintf("filler-%d-%d", n, node), node))
		}
		g := evictor(fmt.Sprintf("evictor-%d", n), n%2 == 0)
		t.submit(ctx, g)
		if n >= 2 {
			old := evictor(fmt.Sprintf("evictor-%d", n-2), n%2 == 0)
			t.note(ctx, t.deleteGroup(ctx, old.name))
			t.each(ctx, old.size, func(i int) error { return t.deletePod(ctx, old.member(i).Name) })
		}
		n++
	})
}

// waitBound waits until the pods have nodes or the attack ends.
func (t *tenant) waitBound(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := eventually(ctx, callTimeout, func() error {
			pod, err := t.getPod(ctx, name)
			if err == nil && pod.Spec.NodeName == "" {
				err = fmt.Errorf("the tenant's pod %s has no node", name)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
