// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
)

// recover withdraws what a former leader wrote for pods that it did not bind: the nodes it selected for claims that have no volume, and
// the volumes it reserved for claims that are not bound to them. Both are marked with its name. What a bound pod uses is kept. Until
// then it waits for all volumes and claims to be known.
func (v *volumes) recover(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), v.isReady) {
		return fmt.Errorf("%s cannot be read, for which the scheduler needs the verbs list and watch: %w", strings.Join(v.unread(), ", "), context.Cause(ctx))
	}
	r := recovery{volumes: v, pods: map[string][]v1.Pod{}}
	return errors.Join(r.claims(ctx), r.reserved(ctx))
}

type recovery struct {
	volumes *volumes
	// pods are those of the namespaces that were asked for.
	pods map[string][]v1.Pod
}

func (r *recovery) claims(ctx context.Context) error {
	claims, err := r.volumes.claims.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	var errs []error
	for _, claim := range claims {
		node := claim.Annotations[volume.AnnSelectedNode]
		if node == "" || claim.Spec.VolumeName != "" || !isOurs(claim) {
			continue
		}
		used, err := r.used(ctx, claim.Namespace, claim.Name)
		if err == nil && !used {
			klog.InfoS("A former leader selected a node for a claim and did not bind the pod: that is withdrawn", "claim", klog.KObj(claim), "node", node)
			err = r.volumes.unselect(ctx, claim.Namespace, claim.Name, claim.UID, node, claim.Annotations[SchedulerAnnotation])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *recovery) reserved(ctx context.Context) error {
	volumes, err := r.volumes.volumes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing volumes: %w", err)
	}
	var errs []error
	for _, reserved := range volumes {
		ref := reserved.Spec.ClaimRef
		scheduler := reserved.Annotations[SchedulerAnnotation]
		if ref == nil || ref.UID == "" || reserved.Status.Phase == v1.VolumeBound || !isOurs(reserved) || !reservedBy(reserved, scheduler, ref.UID) {
			continue
		}
		used, err := r.used(ctx, ref.Namespace, ref.Name)
		if err == nil && !used {
			klog.InfoS("A former leader reserved a volume for a claim and did not bind the pod: that is withdrawn", "volume", klog.KObj(reserved), "claim", ref.Namespace+"/"+ref.Name)
			err = r.volumes.release(ctx, reservation{name: reserved.Name, uid: reserved.UID, claim: ref.UID, scheduler: scheduler})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isOurs is true of what this scheduler, under one of its names, has marked.
func isOurs(object metav1.Object) bool {
	mark, marked := object.GetAnnotations()[SchedulerAnnotation]
	if !marked || options.ServerOpts == nil {
		return false
	}
	return slices.ContainsFunc(options.ServerOpts.SchedulerNames, func(name string) bool { return withOwnName(name) == mark })
}

// used is true of a claim that a pod with a node uses, as the API server has it.
func (r *recovery) used(ctx context.Context, namespace, claim string) (bool, error) {
	pods, known := r.pods[namespace]
	if !known {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := r.volumes.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
		}
		pods = list.Items
		r.pods[namespace] = pods
	}
	return slices.ContainsFunc(pods, func(pod v1.Pod) bool {
		return pod.Spec.NodeName != "" && !finished(&pod) &&
			slices.ContainsFunc(claimVolumes(&pod), func(own claimVolume) bool { return own.claim.Name == claim })
	}), nil
}
