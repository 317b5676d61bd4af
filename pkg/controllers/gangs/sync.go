// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// grace is how long members may wait for the object that they name, or for a minimum, before that is reported.
const grace = 10 * time.Second

// gang is what a sync knows of one.
type gang struct {
	gangs.Name
	// members are its pods, the oldest first; strays name it and are in another PodGroup.
	members, strays []*corev1.Pod
	// object is what the user wrote, in the source; nil if it is written in the pods alone.
	object *v1alpha1.PodGroup
	source *source
	// group is its Volcano PodGroup; nil if there is none.
	group *v1beta1.PodGroup
	// decider is the pod that speaks for all; nil where an object does.
	decider *corev1.Pod
	settings
	// parked is why members are not handed to the scheduler; empty if they are.
	parked string
}

// ourGroup reports whether this controller, or another one for the same scheduler, made the gang's Volcano PodGroup.
func (c *controller) ourGroup(g *gang) bool {
	return g.group != nil && g.group.Annotations[gangs.SourceAnnotation] != "" && slices.Contains(c.schedulers, g.group.Annotations[schedulerAnnotation])
}

func (c *controller) sync(ctx context.Context, name gangs.Name) error {
	g, err := c.read(name)
	if err != nil {
		return err
	}
	refused := c.syncGroup(ctx, g)
	if g.group != nil && g.group.DeletionTimestamp != nil {
		return refused // once deleted, it is created again, and its pods are handed over
	}
	if err := c.syncPods(ctx, g); err != nil {
		return err
	}
	if err := c.dropOwnGroups(ctx, g); err != nil {
		return err
	}
	if err := c.syncObject(ctx, g); err != nil {
		return err
	}
	return refused
}

// read reads the gang from the caches.
func (c *controller) read(name gangs.Name) (*gang, error) {
	g := &gang{Name: name}
	for _, pod := range c.indexed(byGang, name.Namespace, name.Name) {
		if astray(pod) {
			g.strays = append(g.strays, pod)
		} else {
			g.members = append(g.members, pod)
		}
	}
	slices.SortFunc(g.members, byAge)
	if problems := validation.IsDNS1123Subdomain(name.Name); len(problems) > 0 {
		g.parked = fmt.Sprintf("gang name %s is not a valid PodGroup name: %s; correct the name to have the pod scheduled",
			brief.Value(name.Name), brief.Part(problems[0]))
		return g, nil
	}
	for _, s := range c.sources {
		if object := s.get(name.Namespace, name.Name); object != nil {
			g.object, g.source = object, s
			break
		}
	}
	group, err := c.groups.PodGroups(name.Namespace).Get(name.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		g.group = group
	}
	c.settle(g)
	return g, nil
}

// settle finds out who says what the gang is.
func (c *controller) settle(g *gang) {
	switch {
	case g.group != nil && !c.ourGroup(g):
		if scheduler := g.group.Annotations[schedulerAnnotation]; scheduler != "" {
			g.parked = fmt.Sprintf("gang %s belongs to scheduler %s already; name another gang to have the pod scheduled", g.Name, brief.Value(scheduler))
			return
		}
		if owner := metav1.GetControllerOf(g.group); owner != nil {
			g.parked = fmt.Sprintf("gang name %s is taken by the Volcano PodGroup of %s %s; name another gang to have the pod scheduled",
				g.Name, owner.Kind, brief.Part(owner.Name))
			return
		}
		said := settingsOf(g.group.Annotations)
		said[gangs.MinAvailableAnnotation] = fmt.Sprint(g.group.Spec.MinMember)
		g.settings = settings{by: "Volcano's PodGroup " + g.Name.Name, minMember: g.group.Spec.MinMember, said: said, taken: said}
	case g.object != nil:
		g.settings = fromObject(g.Name, g.source.kind(), g.object)
	case len(g.members) > 0:
		speakers := slices.DeleteFunc(slices.Clone(g.members), needsObject)
		g.settings, g.decider = fromPods(g.Name, speakers)
		if g.decider == nil {
			g.parked = c.missing(g, speakers)
		}
	}
}

// missing says what keeps a gang of members from being one.
func (c *controller) missing(g *gang, speakers []*corev1.Pod) string {
	if len(speakers) > 0 {
		found, ok := saidBy(speakers[0])[gangs.MinAvailableAnnotation]
		if !ok {
			return fmt.Sprintf("no pod of gang %s sets %s; set a positive number on at least one pod to have the gang scheduled", g.Name, gangs.MinAvailableAnnotation)
		}
		return gangs.Mistake{
			Field: gangs.MinAvailableAnnotation, Found: found, Want: "a positive number on at least one pod", Effect: "the gang is not scheduled until one sets it",
		}.String()
	}
	label, group := gangs.PodGroupLabel, v1alpha1.GroupName
	if namesOf(g.members[0])[0].field == pluginsLabel {
		label, group = pluginsLabel, v1alpha1.PluginsGroupName
	}
	if slices.ContainsFunc(c.sources, func(s *source) bool { return s.version.Group == group && s.store.Load() == nil }) {
		return fmt.Sprintf("the API server does not serve PodGroup.%s, which label %s refers to; install its CRD and create PodGroup %s to have the pod scheduled",
			group, label, g.Name)
	}
	return fmt.Sprintf("PodGroup.%s %s does not exist; create it, or correct label %s, to have the pod scheduled", group, g.Name, label)
}

// graceLeft returns how long the members' errors are not reported yet. A name that no other object can correct is reported at once.
func (g *gang) graceLeft() time.Duration {
	if g.decider != nil || g.object != nil || g.group != nil || len(g.members) == 0 || len(validation.IsDNS1123Subdomain(g.Name.Name)) > 0 {
		return 0
	}
	return max(0, grace-time.Since(g.members[0].CreationTimestamp.Time))
}
