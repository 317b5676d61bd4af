// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
)

// reason is the reason of events about invalid settings.
const reason = "InvalidGangSettings"

// syncObject writes the status of the user's PodGroup, and messages about the gang. It does not change a PodGroup that
// no pod of the served schedulers has named, because such a PodGroup may belong to another scheduler.
func (c *controller) syncObject(ctx context.Context, g *gang) error {
	if g.object == nil || len(g.members) == 0 && !c.ourGroup(g) {
		return nil
	}
	status := statusOf(g.object.Status, g.members, max(1, g.minMember), g.minimumInGroup(), metav1.Now().Rfc3339Copy())
	if g.source.hasStatus {
		status.Scheduled = 0 // PodGroups with the subresource status have no such field
	}
	problem := g.invalidSettings()
	if g.parked != "" {
		problem = g.parked
	} else if g.group != nil && !c.ourGroup(g) {
		problem = fmt.Sprintf("ignored: Volcano's PodGroup %s defines the gang", g.Name.Name)
	}
	problem = brief.Text(problem)
	var wait v1beta1.PodGroupCondition
	if status.Scheduled < g.minMember && g.group != nil {
		wait = waiting(g.group)
	}
	message := strings.Join(slices.DeleteFunc([]string{problem, wait.Message}, func(text string) bool { return text == "" }), "; ")
	settingsReported, waitReported, _ := strings.Cut(g.object.Annotations[reportedAnnotation], reportedSeparator)
	if err := c.writeObject(ctx, g, message, reportOf(problem)+reportedSeparator+reportOf(wait.Message), status); err != nil {
		return err
	}
	if problem != "" && settingsReported != reportOf(problem) {
		c.recorder.Event(g.reference(), corev1.EventTypeWarning, reason, problem)
	}
	if wait.Message != "" && waitReported != reportOf(wait.Message) {
		c.recorder.Event(g.reference(), corev1.EventTypeWarning, string(wait.Type), wait.Message)
	}
	return nil
}

// reportedSeparator separates the two parts of reportedAnnotation. The first part is for the message about invalid
// settings, and the second part is for the reason why the gang waits.
const reportedSeparator = "/"

// reportOf returns a short hash of a text, to recognize texts that events have already reported; empty for an empty
// text.
func reportOf(text string) string {
	if text == "" {
		return ""
	}
	digest := fnv.New64a()
	digest.Write([]byte(text))
	return strconv.FormatUint(digest.Sum64(), 36)
}

// minimumInGroup reports whether enough members for the gang's minimum have been put into its Volcano PodGroup.
func (g *gang) minimumInGroup() bool {
	n := int32(0)
	for _, pod := range g.members {
		if pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == g.Name.Name {
			n++
		}
	}
	return n >= g.minMember
}

// waiting returns the condition that says why the scheduler has not placed the PodGroup's gang. The condition's reason
// is added to its message. waiting returns an empty condition if the PodGroup has no such condition.
func waiting(group *v1beta1.PodGroup) v1beta1.PodGroupCondition {
	for _, condition := range group.Status.Conditions {
		if condition.Type == v1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			condition.Message = brief.Text(fmt.Sprintf("%s: %s", condition.Reason, condition.Message))
			return condition
		}
	}
	return v1beta1.PodGroupCondition{}
}

// writeObject writes the messages and the status to the user's PodGroup. The write fails if the PodGroup has changed
// since the status was computed, because the status keeps values of the former status, such as ScheduleStartTime.
func (c *controller) writeObject(ctx context.Context, g *gang, message, reported string, status v1alpha1.PodGroupStatus) error {
	to := g.object.DeepCopy()
	switch {
	case message != "":
		metav1.SetMetaDataAnnotation(&to.ObjectMeta, messageAnnotation, message)
		metav1.SetMetaDataAnnotation(&to.ObjectMeta, reportedAnnotation, reported)
	default:
		delete(to.Annotations, messageAnnotation)
		delete(to.Annotations, reportedAnnotation)
	}
	if !g.source.hasStatus {
		to.Status = status
		return c.patchObject(ctx, g, to)
	}
	if err := c.patchObject(ctx, g, to); err != nil {
		return err
	}
	to = g.object.DeepCopy()
	to.Status = status
	return c.patchObject(ctx, g, to, "status")
}

func (c *controller) patchObject(ctx context.Context, g *gang, to *v1alpha1.PodGroup, subresources ...string) error {
	patch, err := apiwrite.MergePatch(g.object, to, map[string]any{"uid": g.object.UID, "resourceVersion": g.object.ResourceVersion})
	if err != nil || patch == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	client := g.source.client.CoschedulingV1alpha1().PodGroups(g.Namespace)
	written, err := client.Patch(ctx, g.Name.Name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patching %s %s: %w", g.source.kind(), g.Name, err)
	}
	g.object = written
	return nil
}

// reference returns a reference to the user's PodGroup for events. It adds the kind and version, because objects from
// an informer lack them.
func (g *gang) reference() *corev1.ObjectReference {
	version, kind := g.source.version.WithKind("PodGroup").ToAPIVersionAndKind()
	return &corev1.ObjectReference{
		APIVersion: version, Kind: kind, Namespace: g.object.Namespace, Name: g.object.Name, UID: g.object.UID,
		ResourceVersion: g.object.ResourceVersion,
	}
}
