// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/helpers"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/controllers/podgroup"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// fromAnnotations is the value of the annotation SourceAnnotation on the Volcano PodGroup of a gang that only its pods
// declare.
const fromAnnotations = "annotations"

// syncGroup creates or updates the gang's Volcano PodGroup, or deletes it when the gang no longer exists.
func (c *controller) syncGroup(ctx context.Context, g *gang) error {
	switch {
	case g.group != nil && (!c.ourGroup(g) || g.group.DeletionTimestamp != nil):
		return nil
	case c.ourGroup(g) && g.object == nil && (len(g.members) == 0 || g.decider == nil && !slices.ContainsFunc(g.members, speaks)):
		return c.deleteGroup(ctx, g.group)
	case g.parked != "" || g.group == nil && len(g.members) == 0:
		return nil
	case g.group == nil:
		return c.createGroup(ctx, g)
	default:
		return c.updateGroup(ctx, g)
	}
}

// speaks reports whether the pod's own annotations may declare the gang. If the pod names a PodGroup object, only that
// object may declare the gang.
func speaks(pod *corev1.Pod) bool { return !needsObject(pod) }

func (c *controller) createGroup(ctx context.Context, g *gang) error {
	w := c.desired(g)
	empty := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name.Name}}
	inherited, err := c.inherited(ctx, g, empty)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	made, err := c.volcano.SchedulingV1beta1().PodGroups(g.Namespace).Create(ctx, w.apply(empty, inherited), metav1.CreateOptions{})
	if err != nil {
		return g.rejected("created", err)
	}
	g.group = made
	return nil
}

func (c *controller) updateGroup(ctx context.Context, g *gang) error {
	w := c.desired(g)
	if w.settled(g.group) {
		return nil
	}
	inherited, err := c.inherited(ctx, g, g.group)
	if err != nil {
		return err
	}
	patch, err := apiwrite.MergePatch(g.group, w.apply(g.group, inherited), map[string]any{"uid": g.group.UID})
	if err != nil || patch == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	changed, err := c.volcano.SchedulingV1beta1().PodGroups(g.Namespace).Patch(ctx, g.Name.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return g.rejected("updated", err)
	}
	g.group = changed
	return nil
}

// rejected records that the API server rejected a write of the Volcano PodGroup, and why, so that the pods and the
// user's object report the reason. what is the failed write: created or updated.
func (g *gang) rejected(what string, err error) error {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apiwrite.RejectedForGood(err) || apierrors.IsForbidden(err):
		g.parked = fmt.Sprintf("Volcano PodGroup of the gang cannot be %s: %s", what, brief.Part(err.Error()))
	}
	return fmt.Errorf("PodGroup %s cannot be %s: %w", g.Name, what, err)
}

// deleteGroup deletes the PodGroup with the UID of group. It does not delete a later PodGroup with the same name.
func (c *controller) deleteGroup(ctx context.Context, group *v1beta1.PodGroup) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.volcano.SchedulingV1beta1().PodGroups(group.Namespace).Delete(ctx, group.Name, *metav1.NewPreconditionDeleteOptions(string(group.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting PodGroup %s/%s: %w", group.Namespace, group.Name, err)
	}
	return nil
}

// dropOwnGroups deletes PodGroups that upstream's controller has created for members of the gang. It deletes a PodGroup
// only if no pods belong to it.
func (c *controller) dropOwnGroups(ctx context.Context, g *gang) error {
	if g.group == nil || g.parked != "" {
		return nil
	}
	seen := map[string]bool{}
	for _, pod := range g.members {
		name := helpers.GeneratePodgroupName(pod)
		if seen[name] {
			continue
		}
		seen[name] = true
		group, err := c.groups.PodGroups(g.Namespace).Get(name)
		if err != nil || len(c.indexed(byGroup, g.Namespace, name)) > 0 {
			continue
		}
		if err := c.deleteGroup(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// desired returns the Volcano PodGroup that the gang's declaration requires.
func (c *controller) desired(g *gang) *desired {
	var now []metav1.OwnerReference
	if g.group != nil {
		now = g.group.OwnerReferences
	}
	w := &desired{
		minMember: g.minMember, queue: c.queueOf(g), minResources: askedFor(g.members, g.minMember),
		owners: ownersOf(g.object, g.source, g.members, now), annotations: map[string]string{}, labels: map[string]string{},
	}
	switch {
	case g.decider != nil:
		w.fromPod(g.decider)
	case len(g.members) > 0:
		w.fromPod(g.members[0])
	default:
		w.fromGroup(g.group)
	}
	source := fromAnnotations
	if g.object != nil {
		source = g.source.version.Group
		for key, value := range g.object.Annotations {
			if upper(key) {
				w.annotations[key] = value
			}
		}
	}
	maps.Copy(w.annotations, g.taken)
	w.annotations[gangs.SourceAnnotation], w.annotations[schedulerAnnotation] = source, schedulerOf(g)
	if text := g.invalidSettings(); text != "" {
		w.annotations[messageAnnotation] = text
	}
	return w
}

// schedulerOf returns the scheduler name of the members. If there are no members, it returns the name that is recorded on
// the gang's Volcano PodGroup.
func schedulerOf(g *gang) string {
	switch {
	case g.decider != nil:
		return g.decider.Spec.SchedulerName
	case len(g.members) > 0:
		return g.members[0].Spec.SchedulerName
	default:
		return g.group.Annotations[schedulerAnnotation]
	}
}

// queueOf returns the queue that an annotation names: of the PodGroup that the user wrote, else of a member, else of
// the namespace. It returns "" if none of them names a queue; the API server then sets the default queue.
func (c *controller) queueOf(g *gang) string {
	var ofObject, ofPod, ofNamespace string
	if g.object != nil {
		ofObject = g.object.Annotations[v1beta1.QueueNameAnnotationKey]
	}
	if pod := g.decider; pod != nil {
		ofPod = pod.Annotations[v1beta1.QueueNameAnnotationKey]
	} else if len(g.members) > 0 {
		ofPod = g.members[0].Annotations[v1beta1.QueueNameAnnotationKey]
	}
	if namespace, err := c.namespaces.Get(g.Namespace); err == nil {
		ofNamespace = namespace.Annotations[v1beta1.QueueNameAnnotationKey]
	}
	return cmp.Or(ofObject, ofPod, ofNamespace)
}

// inherited returns the annotations that the PodGroup gets from the workload that is the common controller of the members.
func (c *controller) inherited(ctx context.Context, g *gang, group *v1beta1.PodGroup) (map[string]string, error) {
	owner := controllerOf(g.members)
	if owner == nil {
		return nil, nil
	}
	return podgroup.Inherited(ctx, c.kube, group, []metav1.OwnerReference{*owner})
}
