// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// mostNamed is the maximum number of roles, of sub-groups and of conditions that a response shows for one gang.
const mostNamed = 100

// Gang is the scheduler's data about a gang.
type Gang struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source is how the user declared the gang: the API group of a PodGroup, or annotations of its pods; empty when the
	// gang's PodGroup does not exist.
	Source string `json:"source,omitempty"`
	// Owner is the object that the PodGroup was made for, such as "Job.batch.volcano.sh train".
	Owner    string    `json:"owner,omitempty"`
	Queue    string    `json:"queue"`
	Priority int32     `json:"priority"`
	Created  time.Time `json:"created,omitzero"`
	Phase    string    `json:"phase,omitempty"`
	State    State     `json:"state"`
	Minimum  Minimum   `json:"minimum"`
	// Settings are the gang's settings according to plugin coscheduling; nil if the gang has none, or the plugin is not
	// configured.
	Settings *Settings      `json:"settings,omitempty"`
	Members  map[string]int `json:"members"`
	// Waits is why the gang waits, according to the last session.
	Waits *Verdict `json:"waits,omitempty"`
	// Evictions is the last try of an action to evict pods for the gang; nil if no try is known.
	Evictions *EvictionTry `json:"evictions,omitempty"`
	// Conditions are the conditions of the gang's PodGroup that are true, by type. They include the gang's time limit,
	// its node reservation and when it was satisfied.
	Conditions map[string]Verdict `json:"conditions,omitempty"`
}

// Minimum is the smallest number of a gang's members that are placed and bound together.
type Minimum struct {
	Members int32            `json:"members"`
	Roles   map[string]int32 `json:"roles,omitempty"`
	// SubGroups is the required number of complete sub-groups, by the name of their policy in subGroupPolicy.
	SubGroups map[string]int32 `json:"subGroups,omitempty"`
}

// Settings are the settings of a gang that are in effect.
type Settings struct {
	Mode        gangs.Mode        `json:"mode"`
	MatchPolicy gangs.MatchPolicy `json:"matchPolicy"`
	WaitingTime string            `json:"waitingTime"`
	TotalNumber int32             `json:"totalNumber,omitempty"`
	Group       []string          `json:"group,omitempty"`
	// Gather holds the gang's rules for placing it in one domain of the network topology.
	Gather []gangs.GatherRule `json:"gather,omitempty"`
	// InvalidSettings describe the invalid settings, and the values that are used in their place.
	InvalidSettings []string `json:"invalidSettings,omitempty"`
}

// Verdict is a reason with a message, and since when it holds.
type Verdict struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// see returns the data about the gang without its settings: parsing settings takes too long while the books are locked.
// annotations are the annotations of the gang's PodGroup if they contain settings; nil otherwise.
func see(job *api.JobInfo) (g Gang, annotations map[string]string) {
	g = Gang{
		Namespace: job.Namespace, Name: job.Name, Queue: string(job.Queue), Priority: job.Priority, Members: membersOf(job),
		Minimum: Minimum{Members: job.MinAvailable},
	}
	pg := job.PodGroup
	if pg == nil {
		g.Namespace, g.Name, _ = strings.Cut(string(job.UID), "/")
		return g, nil
	}
	g.Minimum.Roles, g.Minimum.SubGroups = some(binding.RoleMinima(&pg.Spec)), some(subGroupsOf(pg))
	g.Created, g.Phase, g.Owner = pg.CreationTimestamp.UTC(), string(pg.Status.Phase), ownerOf(pg)
	if g.Source = pg.Annotations[gangs.SourceAnnotation]; g.Source == "" {
		g.Source = scheduling.GroupName
	}
	conditions := map[string]Verdict{}
	for _, c := range pg.Status.Conditions {
		if c.Status == v1.ConditionTrue {
			conditions[string(c.Type)] = Verdict{c.Reason, brief.Text(c.Message), c.LastTransitionTime.UTC()}
		}
	}
	g.Conditions = some(conditions)
	if !gangs.Said(pg.Annotations) {
		return g, nil
	}
	return g, maps.Clone(pg.Annotations)
}

// membersOf counts the members of the gang by their state.
func membersOf(job *api.JobInfo) map[string]int {
	members := map[string]int{}
	for status, tasks := range job.TaskStatusIndex {
		for _, task := range tasks {
			members[memberState(status, task.SchGated)]++
		}
	}
	return members
}

func memberState(status api.TaskStatus, gated bool) string {
	switch status {
	case api.Pending, api.Pipelined:
		if gated {
			return "gated"
		}
		return "pending"
	case api.Allocated, api.Binding:
		return "inFlight"
	case api.Bound:
		return "bound"
	case api.Running:
		return "running"
	case api.Releasing:
		return "releasing"
	case api.Succeeded:
		return "succeeded"
	case api.Failed:
		return "failed"
	default:
		return "unknown"
	}
}

func subGroupsOf(pg *api.PodGroup) map[string]int32 {
	least := map[string]int32{}
	for _, policy := range pg.Spec.SubGroupPolicy {
		if policy.MinSubGroups != nil {
			least[policy.Name] = *policy.MinSubGroups
		}
	}
	return least
}

// some returns at most mostNamed entries of the map, so that a tenant cannot make the response long.
func some[V any](all map[string]V) map[string]V {
	out := maps.Clone(all)
	if len(all) <= mostNamed {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(all))[mostNamed:] {
		delete(out, name)
	}
	return out
}

func ownerOf(pg *api.PodGroup) string {
	owner := metav1.GetControllerOf(pg)
	if owner == nil && len(pg.OwnerReferences) > 0 {
		owner = &pg.OwnerReferences[0]
	}
	if owner == nil {
		return ""
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return owner.Kind + " " + owner.Name
	}
	return version.WithKind(owner.Kind).GroupKind().String() + " " + owner.Name
}

// settingsOf parses the gang's settings from the annotations of its PodGroup.
func settingsOf(g *Gang, annotations map[string]string, defaults gangs.Settings) *Settings {
	self := gangs.Name{Namespace: g.Namespace, Name: g.Name}
	read, invalid := gangs.Read(self, g.Minimum.Members, annotations, defaults)
	s := &Settings{Mode: read.Mode, MatchPolicy: read.MatchPolicy, WaitingTime: read.WaitingTime.String(), TotalNumber: read.TotalNumber, Gather: read.Gather}
	for _, name := range read.Group {
		s.Group = append(s.Group, name.String())
	}
	for _, m := range invalid {
		s.InvalidSettings = append(s.InvalidSettings, brief.Text(m.String()))
	}
	return s
}

// verdict converts the reason why a gang waits to a Verdict; nil if the gang does not wait.
func verdict(reason framework.PendingReason) *Verdict {
	if reason.Reason == "" {
		return nil
	}
	return &Verdict{Reason: reason.Reason, Message: reason.Message}
}
