// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// ForeignPods is the name of an index of the scheduler's pod informer. Its keys are the namespace/name of PodGroups.
// The index lists the pods that name a PodGroup, have no node, and wait for another scheduler. A pod that has a node
// counts for its gang, whichever scheduler chose the node.
const ForeignPods = "volcano-prebind/foreign-pods"

// foreignPods returns a text on how many pods of the gang wait for another scheduler; empty if none does. The session
// does not see these pods, so the gang appears to lack them.
func foreignPods(factory informers.SharedInformerFactory, job *api.JobInfo) string {
	if factory == nil {
		return ""
	}
	found, err := factory.Core().V1().Pods().Informer().GetIndexer().ByIndex(ForeignPods, job.Namespace+"/"+job.Name)
	if err != nil || len(found) == 0 {
		return ""
	}
	schedulers := brief.List{First: maxNamed}
	seen := map[string]bool{}
	for _, object := range found {
		if name := object.(*v1.Pod).Spec.SchedulerName; !seen[name] {
			seen[name] = true
			schedulers.Add(name)
		}
	}
	return fmt.Sprintf("; there %s with this PodGroup and schedulerName %s%s%s", number(int32(len(found)), "pod"),
		quoted(schedulers.Items()), schedulers.More(), servedNames())
}

// servedNames returns a text with the values of schedulerName that this scheduler serves.
func servedNames() string {
	if options.ServerOpts == nil || len(options.ServerOpts.SchedulerNames) == 0 {
		return ""
	}
	served := options.ServerOpts.SchedulerNames
	return "; this scheduler places pods with schedulerName " + quoted(served[:min(len(served), maxNamed)])
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = brief.Value(name)
	}
	return strings.Join(all, ", ")
}
