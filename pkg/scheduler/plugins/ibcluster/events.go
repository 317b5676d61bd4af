// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"time"

	v1 "k8s.io/api/core/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// Reasons of events and conditions.
const (
	// malformedReason is for a PodGroup with annotations that cannot be parsed.
	malformedReason = "IBClusterAnnotationInvalid"
	// ignoredReason is for a PodGroup that overrides the annotations of its pods.
	ignoredReason = "IBClusterAnnotationIgnored"
	// splitReason is for a PodGroup whose members are in several groups.
	splitReason = "IBClusterSplit"
	// twiceReason is for a HyperNode that shares nodes with another of its tier.
	twiceReason = "NodeInTwoGroups"
)

// reportEvery is how often a lasting problem is reported again: the API server keeps events for that long.
const reportEvery = time.Hour

// reportProblems sends an event for each problem that is new, or was reported long ago. The recorder drops a repetition of an
// object's last event, but a HyperNode may have several problems, and may be fixed and become invalid again.
func (p *plugin) reportProblems(ssn *framework.Session, problems []topology.Problem) {
	reported := make(map[string]time.Time, len(problems))
	for _, problem := range problems {
		text := problem.String()
		last, known := p.reported[text]
		if !known || time.Since(last) >= reportEvery {
			last = time.Now()
			p.recorder.Event(reference(ssn, problem.HyperNode), v1.EventTypeWarning, twiceReason, text)
		}
		reported[text] = last
	}
	p.reported = reported
}

// reference returns a reference to the HyperNode for the recorder, which does not know its kind.
func reference(ssn *framework.Session, hyperNode string) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: topologyv1alpha1.SchemeGroupVersion.String(), Kind: "HyperNode",
		Name: hyperNode, UID: ssn.HyperNodes[hyperNode].HyperNode.UID,
	}
}
