// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
)

// counting are upstream's plugins that count a gang as admitted when they vote for it. If these plugins vote again,
// they may refuse a gang that they admitted before, so other plugins are called first.
var counting = []string{"capacity", "proportion", "resourcequota"}

// NotAdmitted returns the reason why the PodGroup is Pending: its queue is not open, or a plugin refuses to admit it.
// It returns false if there is no such reason. To find the plugin, it repeats the plugins' votes. recorded returns the
// reason that a plugin recorded when it voted.
func (u *QueueUse) NotAdmitted(job *api.JobInfo, recorded func(api.JobID) (PendingReason, bool)) (PendingReason, bool) {
	queue := u.upstream.Queues[job.Queue]
	if queue == nil {
		return PendingReason{}, false
	}
	if reason, closed := u.notOpen(queue); closed {
		return reason, true
	}
	if job.PodGroup.Spec.MinResources == nil {
		return PendingReason{}, false
	}
	defer u.vote.End()
	plugin := u.refuser(func() bool { return !u.upstream.JobEnqueueable(job) })
	if plugin == "" {
		return PendingReason{}, false
	}
	if reason, ok := recorded(job.UID); ok && reason.Reason != NotEnoughResources && reason.Reason != NotTried { // the plugin has recorded a reason
		return reason, true
	}
	request := job.GetMinResources()
	text := fmt.Sprintf("not admitted by plugin %s: minResources asks for %s", plugin, amountsOf(request, request))
	if over := u.overCapability(queue, request); over != "" {
		return PendingReason{QueueFull, text + "; " + over}, true
	}
	u.count()
	return PendingReason{NotEnqueued, text + "; the cluster has " + u.clusterText(request)}, true
}

// clusterText returns how much of each requested resource the cluster has, and how much of it is in use.
func (u *QueueUse) clusterText(request *api.Resource) string {
	return textOf(request, func(name string) string {
		return fmt.Sprintf("%s %s (%s used)", name, AmountOf(u.upstream.TotalResource, name), AmountOf(u.all, name))
	})
}

// PendingReason explains why the plugins refused the request of a task in the queue. A call of `refused` repeats the
// plugins' vote, and reports whether they refuse.
func (u *QueueUse) PendingReason(queue *api.QueueInfo, request *api.Resource, refused func() bool) PendingReason {
	if reason, closed := u.notOpen(queue); closed {
		return reason
	}
	if over := u.overCapability(queue, request); over != "" {
		return PendingReason{QueueFull, over}
	}
	u.count()
	plugin := ""
	if name := u.refuser(refused); name != "" { // the name is empty if the plugins refuse only together
		plugin = fmt.Sprintf(" (plugin %s)", name)
	}
	use := fmt.Sprintf("the queue uses %s, the cluster has %s", amountsOf(u.of(queue.UID), request), amountsOf(u.upstream.TotalResource, request))
	if deserved := queue.Queue.Spec.Deserved; len(deserved) > 0 {
		use += fmt.Sprintf(", spec.deserved is %s", amountsOf(api.NewResource(deserved), request))
	}
	if !u.upstream.Overused(queue) {
		return PendingReason{QueueFull, fmt.Sprintf("queue %s has no room in its share of the cluster%s for %s: %s", queue.Name, plugin, amountsOf(request, request), use)}
	}
	return PendingReason{QueueFull, fmt.Sprintf("queue %s has used up its share of the cluster%s: %s", queue.Name, plugin, use)}
}

// notOpen returns the reason why a queue that is not open gets no pods. It returns false for an open queue. A queue
// without a state is open, but not for plugins capacity and proportion.
func (u *QueueUse) notOpen(queue *api.QueueInfo) (PendingReason, bool) {
	state := queue.Queue.Status.State
	if state == scheduling.QueueStateOpen {
		return PendingReason{}, false
	}
	if state == "" {
		for _, tier := range u.upstream.Tiers {
			for _, plugin := range []string{"capacity", "proportion"} {
				if slices.ContainsFunc(tier.Plugins, func(option conf.PluginOption) bool { return option.Name == plugin }) {
					return PendingReason{QueueNotOpen, fmt.Sprintf("queue %s has no state yet, and plugin %s accepts no pods until it is Open; if this lasts, check that Volcano's controller manager runs, which sets the state", queue.Name, plugin)}, true
				}
			}
		}
		return PendingReason{}, false
	}
	return PendingReason{QueueNotOpen, fmt.Sprintf("queue %s is %s and accepts no pods; have it opened, or use another queue", queue.Name, state)}, true
}

// refuser returns the first plugin in the conf that refuses when it votes alone; empty if none does. A call of
// `refuses` repeats the vote with the plugins of the session's tiers. Plugins that count admitted gangs vote after all
// others. The name of a plugin that cannot vote again (cannotRepeat) is returned only if no other plugin refuses.
func (u *QueueUse) refuser(refuses func() bool) string {
	all := u.upstream.Tiers
	defer func() { u.upstream.Tiers = all }()
	last := ""
	for _, counts := range []bool{false, true} {
		for _, tier := range all {
			for _, option := range tier.Plugins {
				if u.cannotRepeat(option.Name) {
					last = option.Name
					continue
				}
				if slices.Contains(counting, option.Name) != counts {
					continue
				}
				u.upstream.Tiers = []conf.Tier{{Plugins: []conf.PluginOption{option}}}
				if refuses() {
					return option.Name
				}
			}
		}
	}
	return last
}

// cannotRepeat reports whether the plugin cannot repeat its vote for an explanation: it would call a server, or it
// would subtract resources that pods have lost to evictions in this session.
func (u *QueueUse) cannotRepeat(plugin string) bool {
	return CallsServer(plugin) || u.evicted && (plugin == "capacity" || plugin == "proportion")
}

// overCapability returns a text with the resources in which the request exceeds the remaining capability of the queue,
// or of its nearest full ancestor; empty if the request fits.
func (u *QueueUse) overCapability(queue *api.QueueInfo, request *api.Resource) string {
	u.count()
	for _, id := range u.Path(queue.UID) {
		q := u.upstream.Queues[id]
		if len(q.Queue.Spec.Capability) == 0 {
			continue
		}
		capability, used := api.NewResource(q.Queue.Spec.Capability), u.of(id)
		var parts []string
		for _, name := range resourceNames(request) {
			if _, limited := q.Queue.Spec.Capability[name]; limited && used.Get(name)+request.Get(name) > capability.Get(name) {
				parts = append(parts, fmt.Sprintf("%s %s of %s in use%s, %s requested", name,
					quantity.Of(name, used.Get(name)), quantity.Of(name, capability.Get(name)), u.ofDeleted(id, name), quantity.Of(name, request.Get(name))))
			}
		}
		if len(parts) > 0 {
			return fmt.Sprintf("queue %s has reached its capability: %s", q.Name, strings.Join(named(parts), ", "))
		}
	}
	return ""
}

// ofDeleted returns a text on how much of the queue's use belongs to pods that are being deleted; empty if no such pod
// uses the resource.
func (u *QueueUse) ofDeleted(queue api.QueueID, name v1.ResourceName) string {
	amount := 0.0
	for id, job := range u.upstream.Jobs {
		if IsDeletedJob(id) && slices.Contains(u.Path(job.Queue), queue) {
			amount += job.Allocated.Get(name)
		}
	}
	if amount == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s by pods being deleted)", quantity.Of(name, amount))
}

// FitsCapability returns an error unless the request fits into the capability of the queue and of its ancestors, if
// they were empty.
func (u *QueueUse) FitsCapability(queue *api.QueueInfo, request *api.Resource) error {
	for _, id := range u.Path(queue.UID) {
		capability := u.upstream.Queues[id].Queue.Spec.Capability
		limit := api.NewResource(capability)
		for _, name := range slices.Sorted(maps.Keys(capability)) {
			if asked := request.Get(name); asked > limit.Get(name) {
				return fmt.Errorf("queue %s has capability %s %s, %s requested", id, name, quantity.Of(name, limit.Get(name)), quantity.Of(name, asked))
			}
		}
	}
	return nil
}

// Path returns the queue and its ancestors, the queue first.
func (u *QueueUse) Path(id api.QueueID) []api.QueueID {
	var path []api.QueueID
	for queue := u.upstream.Queues[id]; queue != nil && !slices.Contains(path, id); queue = u.upstream.Queues[id] {
		path = append(path, id)
		if id = api.QueueID(queue.Queue.Spec.Parent); id == "" {
			break
		}
	}
	return path
}
