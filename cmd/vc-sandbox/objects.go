// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

const (
	// nameLabel on a pod is the name of its gang.
	nameLabel     = "app.kubernetes.io/name"
	schedulerName = "volcano"
)

// gang is a PodGroup with equal members. Each member needs a whole node unless asks is set. The minimum is all members.
type gang struct {
	name    string
	members int
	cluster ibCluster
	// label is the key of the pod label that has the gang's name.
	label string
	// anyCluster reports whether the members may be placed in any one cluster. If among is not empty, only the clusters
	// in among are allowed.
	anyCluster bool
	among      []string
	// claims reports whether each member has a PersistentVolumeClaim with the name of its pod.
	claims bool
	// asks are the requests of each member, in addition to a little CPU; nil for a whole node. joint is the value of
	// the annotation that requests devices on one PCIe switch.
	asks  corev1.ResourceList
	joint string
	// group are the names of the gangs that are placed and bound with this gang, including itself; nil if it has no group.
	group []string
	// priority is the name of the PriorityClass; empty for priority 0.
	priority string
}

// The annotations of a PodGroup that the plugin ibcluster reads.
const (
	modeAnnotation     = "ibcluster.volcano-prebind.io/mode"
	clustersAnnotation = "ibcluster.volcano-prebind.io/clusters"
)

func newGang(name string, cluster ibCluster) gang {
	return gang{name: name, members: len(cluster.nodes), cluster: cluster, label: nameLabel}
}

func (g gang) labels() map[string]string { return map[string]string{g.label: g.name} }

func (g gang) podGroup() *schedulingv1beta1.PodGroup {
	pg := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: g.name},
		Spec:       schedulingv1beta1.PodGroupSpec{MinMember: int32(g.members), Queue: controlplane.DefaultQueue, PriorityClassName: g.priority},
	}
	if g.anyCluster {
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, modeAnnotation, "required")
	}
	if len(g.among) > 0 {
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, clustersAnnotation, strings.Join(g.among, ","))
	}
	if len(g.group) > 0 {
		var names []string
		for _, name := range g.group {
			names = append(names, strconv.Quote(namespace+"/"+name))
		}
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, gangs.GroupsAnnotation, "["+strings.Join(names, ",")+"]")
	}
	return pg
}

func (g gang) pod(i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", g.name, i), Labels: g.labels(),
			Annotations: map[string]string{schedulingv1beta1.KubeGroupNameAnnotationKey: g.name},
		},
		Spec: podSpec(g.cluster, wholeNode(g.cluster.nodes[0])),
	}
	pod.Spec.PriorityClassName = g.priority
	if g.anyCluster {
		pod.Spec.NodeSelector = nil
	}
	if g.asks != nil {
		requests := maps.Clone(g.asks)
		requests[corev1.ResourceCPU] = resource.MustParse("1")
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: requests}
	}
	if g.joint != "" {
		pod.Annotations[v1alpha1.DeviceJointAllocateAnnotation] = g.joint
	}
	if g.claims {
		pod.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name},
		}}}
	}
	return pod
}

// job returns a Volcano Job with a launcher and several workers. Each worker needs a whole node. The minimum is all
// pods of the Job.
func job(name string, workers int, cluster ibCluster) *batchv1alpha1.Job {
	task := func(task string, replicas int, requests corev1.ResourceList) batchv1alpha1.TaskSpec {
		return batchv1alpha1.TaskSpec{
			Name: task, Replicas: int32(replicas),
			Template: corev1.PodTemplateSpec{Spec: podSpec(cluster, requests)},
		}
	}
	node := cluster.nodes[0]
	return &batchv1alpha1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1alpha1.JobSpec{
			SchedulerName: schedulerName, Queue: controlplane.DefaultQueue, MinAvailable: int32(workers + 1),
			Tasks: []batchv1alpha1.TaskSpec{
				task("launcher", 1, corev1.ResourceList{corev1.ResourceCPU: cpu(node, 1, 16)}),
				task("worker", workers, wholeNode(node)),
			},
		},
	}
}

func podSpec(cluster ibCluster, requests corev1.ResourceList) corev1.PodSpec {
	return corev1.PodSpec{
		SchedulerName: schedulerName,
		RestartPolicy: corev1.RestartPolicyNever,
		NodeSelector:  map[string]string{clusterLabel: cluster.name},
		Containers: []corev1.Container{{
			Name: "main", Image: "simulated",
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
		}},
	}
}

// wholeNode returns requests so large that only one such pod fits on the node: all GPUs and more than half of the CPUs.
// The CPUs are for nodes without GPUs.
func wholeNode(node *corev1.Node) corev1.ResourceList {
	requests := corev1.ResourceList{corev1.ResourceCPU: cpu(node, 5, 8)}
	if gpus, ok := node.Status.Allocatable[gpuResource]; ok {
		requests[gpuResource] = gpus
	}
	return requests
}

// cpu returns the fraction numerator/denominator of the node's CPUs.
func cpu(node *corev1.Node, numerator, denominator int64) resource.Quantity {
	all := node.Status.Allocatable[corev1.ResourceCPU]
	return *resource.NewMilliQuantity(all.MilliValue()*numerator/denominator, resource.DecimalSI)
}

// submit creates the gang's PodGroup and then its pods.
func (s *story) submit(ctx context.Context, g gang) error {
	if _, err := s.vc.SchedulingV1beta1().PodGroups(namespace).Create(ctx, g.podGroup(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating PodGroup %s: %w", g.name, err)
	}
	for i := range g.members {
		if _, err := s.kube.CoreV1().Pods(namespace).Create(ctx, g.pod(i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a pod of gang %s: %w", g.name, err)
		}
	}
	return nil
}

// remove deletes the gang and waits until its pods no longer exist.
func (s *story) remove(ctx context.Context, g gang) error {
	began := time.Now()
	if err := s.vc.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, g.name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting PodGroup %s: %w", g.name, err)
	}
	for i := range g.members {
		if err := s.kube.CoreV1().Pods(namespace).Delete(ctx, g.pod(i).Name, *metav1.NewDeleteOptions(0)); err != nil {
			return fmt.Errorf("deleting a pod of gang %s: %w", g.name, err)
		}
	}
	_, err := s.view.await(ctx, began, fmt.Sprintf("the pods of %s are deleted", g.name), func() (bool, string) {
		all, _ := s.view.placed(g.labels())
		return len(all) == 0, fmt.Sprintf("%d exist", len(all))
	})
	return err
}
