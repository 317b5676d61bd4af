// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"time"

	v1 "k8s.io/api/core/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// The reasons of the plugin's events and conditions.
const (
	// malformedReason is for a PodGroup with annotations that cannot be parsed.
	malformedReason = "IBClusterAnnotationInvalid"
	// ignoredReason is for a PodGroup that overrides the annotations of its pods.
	ignoredReason = "IBClusterAnnotationIgnored"
	// splitReason is for a PodGroup whose members are in several node groups.
	splitReason = "IBClusterSplit"
	// twiceReason is for a HyperNode that shares nodes with another HyperNode of the same tier.
	twiceReason = "NodeInTwoGroups"
)

// reportEvery is how often a lasting problem is reported again. By default, the API server keeps an event for one
// hour.
const reportEvery = time.Hour

// reportProblems sends an event for each problem that is new or was last reported at least reportEvery ago. The
// recorder drops only repetitions of an object's last event. That does not suffice for a HyperNode with several
// problems, or one that is fixed and becomes invalid again.
func (p *plugin) reportProblems(ssn *framework.Session, problems []topology.Problem) {
	reported := make(map[string]time.Time, len(problems))
	for _, problem := range problems {
		text := problem.String()
		last, known := p.memory.reported[text]
		if !known || time.Since(last) >= reportEvery {
			last = time.Now()
			p.recorder.Event(reference(ssn, problem.HyperNode), v1.EventTypeWarning, twiceReason, text)
		}
		reported[text] = last
	}
	p.memory.reported = reported
}

// reference returns a reference to the HyperNode for events. The recorder needs it, because it does not know the kind
// HyperNode.
func reference(ssn *framework.Session, hyperNode string) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: topologyv1alpha1.SchemeGroupVersion.String(), Kind: "HyperNode",
		Name: hyperNode, UID: ssn.HyperNodes[hyperNode].HyperNode.UID,
	}
}
