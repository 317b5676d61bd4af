// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// breakages are faults that the checks must find: a scheduler that is slow or does not work, and lasting effects.
// They need an administrator's rights.
func breakages() []attack {
	return []attack{
		{
			name: "slow-scheduler", breaks: slowScheduler, finds: "in the median",
			does: "stops the scheduler's process for 3 s again and again", harm: "the median delay exceeds its bound",
		},
		{
			name: "halted-scheduler", breaks: haltedScheduler, finds: "not bound within",
			does: "stops the scheduler's process", harm: "no gang is bound",
		},
		{
			name: "closed-queue", breaks: closedQueue, finds: "queue default is Closed",
			does: "closes the default queue", harm: "a queue stays closed",
		},
		{
			name: "cordoned-nodes", breaks: cordonNodes, finds: "whole-",
			does: "cordons three nodes", harm: "the gang that needs all nodes is not bound",
		},
		{
			name: "stopped-pod", breaks: stopPod, finds: "resident-0 of the victim was stopped",
			does: "deletes a resident pod of the victim", harm: "the victim's pod no longer runs",
		},
	}
}

func slowScheduler(ctx context.Context, s *testbed) error {
	const stopped, runs = 3 * time.Second, 60 * time.Millisecond
	for ctx.Err() == nil {
		if err := s.scheduler.Pause(); err != nil {
			return err
		}
		_ = pause(ctx, stopped)
		if err := s.scheduler.Resume(); err != nil {
			return err
		}
		_ = pause(ctx, runs)
	}
	return nil
}

func haltedScheduler(ctx context.Context, s *testbed) error {
	if err := s.scheduler.Pause(); err != nil {
		return err
	}
	return errors.Join(hold(ctx), s.scheduler.Resume())
}

func closedQueue(ctx context.Context, s *testbed) error {
	queues := s.vc.SchedulingV1beta1().Queues()
	queue, err := queues.Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return err
	}
	queue.Status.State = v1beta1.QueueStateClosed
	if _, err := queues.UpdateStatus(ctx, queue, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return hold(ctx)
}

func cordonNodes(ctx context.Context, s *testbed) error {
	for n := range 3 {
		patch := []byte(`{"spec": {"unschedulable": true}}`)
		if _, err := s.kube.CoreV1().Nodes().Patch(ctx, nodeName(n), types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return hold(ctx)
}

func stopPod(ctx context.Context, s *testbed) error {
	err := s.kube.CoreV1().Pods(victimNamespace).Delete(ctx, "resident-0", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	return errors.Join(err, hold(ctx))
}
