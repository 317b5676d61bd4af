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

// grace is how long members may wait for the PodGroup object that they name, or for a pod that declares the minimum.
// After that time, the members report an error.
const grace = 10 * time.Second

// gang is one gang, read from the caches for one sync.
type gang struct {
	gangs.Name
	// members are the gang's pods, oldest first. orphans are pods that name the gang but are in another PodGroup.
	members, orphans []*corev1.Pod
	// object is the PodGroup that the user wrote, and source its API group; both are nil if the gang is declared only by
	// its pods.
	object *v1alpha1.PodGroup
	source *source
	// group is the gang's Volcano PodGroup; nil if it does not exist.
	group *v1beta1.PodGroup
	// decider is the pod whose settings count for the whole gang; nil if an object declares the gang.
	decider *corev1.Pod
	settings
	// parked is the reason why the controller does not put the members into the Volcano PodGroup; empty if it does.
	parked string
}

// ourGroup reports whether this controller, or another gang controller for the same scheduler, created the gang's Volcano
// PodGroup.
func (c *controller) ourGroup(g *gang) bool {
	return g.group != nil && g.group.Annotations[gangs.SourceAnnotation] != "" && slices.Contains(c.schedulers, g.group.Annotations[schedulerAnnotation])
}

func (c *controller) sync(ctx context.Context, name gangs.Name) error {
	g, err := c.read(name)
	if err != nil {
		return err
	}
	rejected := c.syncGroup(ctx, g)
	if g.group != nil && g.group.DeletionTimestamp != nil {
		return rejected // once the Volcano PodGroup, which is being deleted, is gone, another sync creates it again
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
	return rejected
}

// read reads the gang from the caches.
func (c *controller) read(name gangs.Name) (*gang, error) {
	g := &gang{Name: name}
	for _, pod := range c.indexed(byGang, name.Namespace, name.Name) {
		if inOtherPodGroup(pod) {
			g.orphans = append(g.orphans, pod)
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
	c.resolveDeclaration(g)
	return g, nil
}

// resolveDeclaration decides which object or pod declares the gang, and parses its settings. If none does, it sets
// parked to the reason why the members are not put into a Volcano PodGroup. It also does so if a Volcano PodGroup with
// the gang's name belongs to another scheduler or is controlled by another object.
func (c *controller) resolveDeclaration(g *gang) {
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

// missing returns a message for the members if the gang's declaration lacks an object or a minimum. speakers are the
// members whose own annotations may declare the gang.
func (c *controller) missing(g *gang, speakers []*corev1.Pod) string {
	if len(speakers) > 0 {
		found, ok := saidBy(speakers[0])[gangs.MinAvailableAnnotation]
		if !ok {
			return fmt.Sprintf("no pod of gang %s sets %s; set a positive number on at least one pod to have the gang scheduled", g.Name, gangs.MinAvailableAnnotation)
		}
		return gangs.InvalidSetting{
			Field: gangs.MinAvailableAnnotation, Value: found, Expected: "a positive number on at least one pod", Effect: "the gang is not scheduled until one sets it",
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

// hasInvalidName reports whether a PodGroup cannot have the gang's name.
func (g *gang) hasInvalidName() bool { return len(validation.IsDNS1123Subdomain(g.Name.Name)) > 0 }

// graceLeft returns for how long the members report no error yet, because an object that the gang needs may still be
// created. It returns 0 for an invalid gang name, because no other object can correct the name.
func (g *gang) graceLeft() time.Duration {
	if g.decider != nil || g.object != nil || g.group != nil || len(g.members) == 0 || g.hasInvalidName() {
		return 0
	}
	return max(0, grace-time.Since(g.members[0].CreationTimestamp.Time))
}
