// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	busv1alpha1 "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// orders returns attacks through the controllers and on the order of a queue.
func orders() []attack {
	return []attack{
		{
			name: "close-queue", run: closeQueue,
			does: "creates Commands in its namespace that close other tenants' queues, and abort a Job with the name of a victim's Job",
			harm: "a closed queue admits no gang",
		},
		{
			name: "job-churn", run: jobChurn,
			does: "creates and deletes Volcano Jobs and PodGroups of other APIs as fast as the API server takes them",
			harm: "the controllers fall behind with the objects of other tenants, too",
		},
		{
			name: "top-priority", run: topPriority,
			does: "submits 100 gangs to the victim's queue, with the highest priority class for users, that the cluster could never hold",
			harm: "they go before the victim's gangs in each cycle, and preempt and reclaim look for victims",
		},
	}
}

func closeQueue(ctx context.Context, t *tenant) error {
	commands := t.vc.BusV1alpha1().Commands(tenantNamespace)
	targets := []metav1.OwnerReference{
		{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue", Name: victimQueue, UID: "x"},
		{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue", Name: controlplane.DefaultQueue, UID: "x"},
		{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue", Name: "root", UID: "x"},
		{APIVersion: batchv1alpha1.SchemeGroupVersion.String(), Kind: "Job", Name: "resident", UID: "x"},
	}
	n := 0
	return repeat(ctx, nap, func() {
		target := targets[n%len(targets)]
		command := &busv1alpha1.Command{
			ObjectMeta:   metav1.ObjectMeta{Name: fmt.Sprintf("command-%d", n), OwnerReferences: []metav1.OwnerReference{target}},
			TargetObject: &target, Action: string(busv1alpha1.CloseQueueAction),
		}
		if target.Kind == "Job" {
			command.Action = string(busv1alpha1.AbortJobAction)
		}
		_, err := commands.Create(ctx, command, metav1.CreateOptions{})
		t.note(ctx, err)
		n++
	})
}

func jobChurn(ctx context.Context, t *tenant) error {
	jobs := t.vc.BatchV1alpha1().Jobs(tenantNamespace)
	t.storm(ctx, func(n int) error {
		name := fmt.Sprintf("job-%d", n)
		if n%3 == 2 {
			return t.createSigsGroup(ctx, name, 2)
		}
		pod := newPod("")
		ask(pod, corev1.ResourceCPU, "100m")
		job := &batchv1alpha1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: batchv1alpha1.JobSpec{
				SchedulerName: schedulerName, MinAvailable: 2, Queue: controlplane.DefaultQueue,
				Tasks: []batchv1alpha1.TaskSpec{{Name: "w", Replicas: 2, Template: corev1.PodTemplateSpec{Spec: pod.Spec}}},
			},
		}
		if _, err := jobs.Create(ctx, job, metav1.CreateOptions{}); err != nil {
			return err
		}
		if n%2 == 0 && n < 300 { // Some of them stay.
			return nil
		}
		return jobs.Delete(ctx, name, metav1.DeleteOptions{})
	})
	return nil
}

func topPriority(ctx context.Context, t *tenant) error {
	for n := range 100 {
		g := impossible(fmt.Sprintf("top-%d", n))
		g.queue, g.class = victimQueue, highClass
		t.submit(ctx, g)
	}
	return hold(ctx)
}
