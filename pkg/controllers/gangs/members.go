// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

const (
	// patchers is how many pods of a gang are patched in parallel. turn is the maximum number of pods of a gang that
	// one sync patches, so that other gangs are synced in between.
	patchers, turn = 8, 500
	// namedPods is the maximum number of pods that a message names.
	namedPods = 3
	// reportingMembers limits how many members have a message that depends on other members. Without the limit, a
	// change of one member's annotation would cost a write for each other member. The message on the PodGroup covers
	// all members.
	reportingMembers = 10
)

// podPatch holds the annotations to change on a pod. A nil value deletes the annotation.
type podPatch struct {
	pod         *corev1.Pod
	annotations map[string]*string
}

func (p *podPatch) set(key, value string) {
	switch was, ok := p.pod.Annotations[key]; {
	case value == was && (ok || value == ""):
	case value == "":
		p.annotations[key] = nil
	default:
		p.annotations[key] = &value
	}
}

// syncPods writes the name of the gang's PodGroup to the members. A member that has a node gets the name only if it
// names no PodGroup yet. syncPods also reports invalid settings on the pods that have invalid settings.
func (c *controller) syncPods(ctx context.Context, g *gang) error {
	var patches []*podPatch
	left := g.graceLeft()
	if left > 0 && g.parked != "" {
		c.queue.AddAfter(g.Name, left)
	}
	reporting := 0
	for _, pod := range slices.Concat(g.members, g.orphans) {
		if pod.DeletionTimestamp != nil || finished(pod) {
			continue
		}
		patch := &podPatch{pod: pod, annotations: map[string]*string{}}
		placed := pod.Spec.NodeName != ""
		if g.group != nil && g.parked == "" && !inOtherPodGroup(pod) && (!placed || pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == "") {
			patch.set(v1beta1.KubeGroupNameAnnotationKey, g.Name.Name)
			patch.set(gangAnnotation, g.Name.Name)
		}
		if left == 0 {
			message, shared := g.messageFor(pod)
			if shared {
				reporting++
			}
			if shared && reporting > reportingMembers {
				message = g.shortMessageFor(pod)
			}
			patch.set(messageAnnotation, message)
		}
		if len(patch.annotations) > 0 {
			patches = append(patches, patch)
		}
	}
	if len(patches) > turn {
		patches = patches[:turn]
		c.enqueue(g.Namespace, g.Name.Name)
	}
	errs := make([]error, len(patches))
	workqueue.ParallelizeUntil(ctx, patchers, len(patches), func(i int) { errs[i] = c.patchPod(ctx, patches[i]) })
	return errors.Join(errs...)
}

// patchPod patches the pod only if the pod has not changed since it was read. So a pod that has got a node since then
// is not changed.
func (c *controller) patchPod(ctx context.Context, p *podPatch) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.pod.UID, "resourceVersion": p.pod.ResourceVersion, "annotations": p.annotations,
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = c.kube.CoreV1().Pods(p.pod.Namespace).Patch(ctx, p.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patching pod %s/%s: %w", p.pod.Namespace, p.pod.Name, err)
	}
	if message := p.annotations[messageAnnotation]; message != nil {
		c.recorder.Event(p.pod, corev1.EventTypeWarning, reason, *message)
	}
	return nil
}

// messageFor returns the text for the pod's message annotation. shared reports whether the text depends on other
// objects.
func (g *gang) messageFor(pod *corev1.Pod) (message string, shared bool) {
	invalid := misnamed(pod)
	switch {
	case inOtherPodGroup(pod):
		used := brief.Value(pod.Annotations[v1beta1.KubeGroupNameAnnotationKey])
		invalid = append(invalid, conflict(namesOf(pod)[0].field, g.Name.Name, fmt.Sprintf("%s in %s", used, v1beta1.KubeGroupNameAnnotationKey), used))
	case g.parked != "":
		return sentences(invalid, g.parked), !g.hasInvalidName()
	case pod == g.decider:
		invalid = append(invalid, g.invalid...)
	default:
		disagreements := g.disagreements(pod)
		invalid, shared = append(invalid, disagreements...), len(disagreements) > 0
	}
	return sentences(invalid), shared
}

// shortMessageFor returns the message of a pod if enough older pods (reportingMembers) already have full messages. The
// short message does not depend on other members. If the gang cannot be scheduled, it refers to the older pods, because
// a change of one member may change the reason.
func (g *gang) shortMessageFor(pod *corev1.Pod) string {
	if g.parked == "" || pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] != "" {
		return sentences(misnamed(pod))
	}
	return sentences(misnamed(pod), fmt.Sprintf("the pod waits because gang %s cannot be scheduled; the reason is in annotation %s of the gang's %d oldest pods",
		g.Name, messageAnnotation, reportingMembers))
}

// invalidSettings returns a message about the gang's invalid settings, and about members whose settings differ from the
// gang's. It returns "" if all settings are valid and equal.
func (g *gang) invalidSettings() string {
	others := brief.List{First: namedPods}
	for _, pod := range g.members {
		if pod != g.decider && len(g.disagreements(pod)) > 0 {
			others.Add(pod.Name)
		}
	}
	if len(others.Items()) == 0 {
		return sentences(g.invalid)
	}
	return sentences(g.invalid, fmt.Sprintf("conflicting settings: %s overrides %s%s", g.by, strings.Join(others.Items(), ", "), others.More()))
}

func sentences(invalid []gangs.InvalidSetting, more ...string) string {
	all := make([]string, 0, len(invalid)+len(more))
	for _, m := range invalid {
		all = append(all, m.String())
	}
	return brief.Text(strings.Join(append(all, more...), "; "))
}
