// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
)

// statusOf computes the status of a user's PodGroup from its former status and from the gang's members and minimum.
// minimumInGroup reports whether at least the minimum number of members are in the gang's Volcano PodGroup.
func statusOf(was v1alpha1.PodGroupStatus, members []*corev1.Pod, minMember int32, minimumInGroup bool, now metav1.Time) v1alpha1.PodGroupStatus {
	is := v1alpha1.PodGroupStatus{OccupiedBy: was.OccupiedBy, ScheduleStartTime: was.ScheduleStartTime}
	for _, pod := range members {
		if pod.Spec.NodeName != "" {
			is.Scheduled++
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			is.Running++
		case corev1.PodSucceeded:
			is.Succeeded++
		case corev1.PodFailed:
			is.Failed++
		}
	}
	unfinished := int32(len(members)) - is.Succeeded - is.Failed
	is.Phase = phaseOf(is, int32(len(members)), minMember, minimumInGroup)
	if over(was.Phase) && unfinished == 0 && !over(is.Phase) {
		return was // a finished gang keeps its status when its pods are deleted
	}
	if is.Phase != v1alpha1.PodGroupPending && is.OccupiedBy == "" {
		is.OccupiedBy = occupant(members)
	}
	started := is.Phase != v1alpha1.PodGroupPending && is.Phase != v1alpha1.PodGroupPreScheduling
	if started && is.ScheduleStartTime == nil {
		is.ScheduleStartTime = &now
	}
	return is
}

func over(phase v1alpha1.PodGroupPhase) bool {
	return phase == v1alpha1.PodGroupFinished || phase == v1alpha1.PodGroupFailed
}

func phaseOf(is v1alpha1.PodGroupStatus, members, minMember int32, minimumInGroup bool) v1alpha1.PodGroupPhase {
	switch {
	case is.Succeeded >= minMember:
		return v1alpha1.PodGroupFinished
	case is.Failed > 0 && is.Failed+is.Running+is.Succeeded >= minMember:
		return v1alpha1.PodGroupFailed
	case is.Running+is.Succeeded >= minMember:
		return v1alpha1.PodGroupRunning
	case is.Scheduled >= minMember:
		return v1alpha1.PodGroupScheduled
	case is.Scheduled > 0 || members >= minMember && minimumInGroup:
		return v1alpha1.PodGroupScheduling
	case members >= minMember:
		return v1alpha1.PodGroupPreScheduling
	default:
		return v1alpha1.PodGroupPending
	}
}

// occupant returns the names of the owners of the oldest member, for the field OccupiedBy.
func occupant(members []*corev1.Pod) string {
	if len(members) == 0 {
		return ""
	}
	var owners []string
	for _, owner := range members[0].OwnerReferences {
		owners = append(owners, members[0].Namespace+"/"+owner.Name)
	}
	slices.Sort(owners)
	return brief.Part(strings.Join(owners, ","))
}
