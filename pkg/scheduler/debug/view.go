// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/metrics"
)

// Gangs are the gangs in the scheduler's books. The method View locks the books and calls see for each of the gangs.
type Gangs interface {
	IDs() []api.JobID
	View(ids []api.JobID, see func(*api.JobInfo))
}

// View shows gangs. It is safe for concurrent use.
type View struct {
	gangs Gangs
	// groupsInFlight returns how many transactions of gang groups, with more than one gang, have not ended.
	groupsInFlight func() int
	// reasons returns why gangs wait, according to the last session.
	reasons func() map[api.JobID]framework.PendingReason
	// defaults returns the settings of a gang that sets none; false if no plugin reads settings.
	defaults func() (gangs.Settings, bool)
	tries    *EvictionTries
}

// New returns a view of the given gangs. The fields of View describe groupsInFlight, reasons and defaults.
func New(
	gangs Gangs, groupsInFlight func() int, reasons func() map[api.JobID]framework.PendingReason, defaults func() (gangs.Settings, bool),
	tries *EvictionTries,
) *View {
	return &View{gangs: gangs, groupsInFlight: groupsInFlight, reasons: reasons, defaults: defaults, tries: tries}
}

// Count counts the gangs by state.
func (v *View) Count() metrics.GangCounts {
	counts := metrics.GangCounts{ByState: map[string]int{}, GroupsInFlight: v.groupsInFlight()}
	for _, state := range States {
		counts.ByState[string(state)] = 0
	}
	reasons := v.reasons()
	v.gangs.View(v.gangs.IDs(), func(job *api.JobInfo) {
		counts.ByState[string(stateOf(job, isTimedOut(reasons[job.UID])))]++
	})
	return counts
}

// Query selects gangs for one page. An empty Namespace or Name selects all gangs.
type Query struct {
	Namespace, Name string
	// After is the last gang of the previous page, as namespace/name; empty for the first page.
	After string
	// Limit is the maximum number of gangs on the page.
	Limit int
}

// Page is a part of the selected gangs, in order of namespace/name.
type Page struct {
	Gangs []Gang `json:"gangs"`
	// LeftOut is the number of selected gangs after this page.
	LeftOut int `json:"leftOut"`
}

// List returns the page of gangs that the query selects.
func (v *View) List(q Query) Page {
	ids := slices.DeleteFunc(v.gangs.IDs(), func(id api.JobID) bool {
		namespace, name, _ := strings.Cut(string(id), "/")
		return q.Namespace != "" && namespace != q.Namespace || q.Name != "" && name != q.Name || string(id) <= q.After
	})
	slices.Sort(ids)
	shown := ids[:min(len(ids), max(q.Limit, 0))]
	page := Page{Gangs: make([]Gang, 0, len(shown)), LeftOut: len(ids) - len(shown)}
	reasons := v.reasons()
	annotations := make([]map[string]string, 0, len(shown))
	v.gangs.View(shown, func(job *api.JobInfo) {
		reason := reasons[job.UID]
		gang, said := see(job)
		gang.State, gang.Waits, gang.Evictions = stateOf(job, isTimedOut(reason)), verdict(reason), v.tries.of(job.UID)
		page.Gangs, annotations = append(page.Gangs, gang), append(annotations, said)
	})
	if defaults, read := v.defaults(); read {
		for i, said := range annotations {
			if said != nil {
				page.Gangs[i].Settings = settingsOf(&page.Gangs[i], said, defaults)
			}
		}
	}
	return page
}

func isTimedOut(reason framework.PendingReason) bool { return reason.Reason == gangs.TimedOut }
