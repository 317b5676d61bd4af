// SPDX-License-Identifier: Apache-2.0

package report

import (
	"hash/maphash"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// An explanation contains numbers that change with other users' workloads, and each reported text is written to the
// gang's PodGroup and to each of its pods, with an event for each. So a new text with the same reason is reported only
// after a pause.
const (
	// firstPause is about how long a user watches a gang after submitting it. While gangs wait, two cycles are also at
	// most this far apart.
	firstPause = 15 * time.Second
	// longestPause bounds how old the reported numbers of a gang that waits for hours may be. It also limits a gang of a
	// thousand pods in a busy cluster to about two writes and two events a second.
	longestPause = 8 * time.Minute
)

// lastReports maps each gang that waits to its last reported reason. A gang that does not wait has no entry.
type lastReports map[api.JobID]lastReport

// lastReport holds the reason that was last reported to a gang, the state of the gang at that time, and for each kind
// of reason the pause before another text of this kind is reported.
type lastReport struct {
	reason framework.PendingReason
	at     time.Time
	gang   gangFingerprint
	pauses map[string]pause
}

// pause is a time during which no new text with the same reason is reported to a gang.
type pause struct {
	length time.Duration
	until  time.Time
}

// pace returns the reason to report for the gang: the parameter found (this session's reason), or the last reported
// reason while a pause lasts for reasons of the same kind. The pause doubles each time another text of this kind is
// reported. A kind that is new, or a reason that follows a change of the gang's own spec or pods, is reported at once.
// Each kind of reason has its own pause, because in a nearly full cluster a gang's reason may alternate with each pod
// of other users (alternates). A reason of any other kind has ended when another kind follows, so the new reason is held
// back only until firstPause has passed since the last report.
func (t lastReports) pace(job *api.JobInfo, found framework.PendingReason) framework.PendingReason {
	last, known := t[job.UID]
	if known && last.reason == found {
		return found
	}
	gang := gangFingerprintOf(job)
	if !known || !last.gang.equal(gang) {
		last = lastReport{gang: gang, pauses: map[string]pause{}}
	}
	p, again := last.pauses[found.Reason]
	switch {
	case !again:
		p.length = firstPause
	case time.Now().Before(p.until) && (last.reason.Reason == found.Reason || alternates[last.reason.Reason] && alternates[found.Reason] || time.Since(last.at) < firstPause):
		return last.reason
	default:
		p.length = min(2*p.length, longestPause)
	}
	p.until = time.Now().Add(p.length)
	last.reason, last.at, last.pauses[found.Reason] = found, time.Now(), p
	t[job.UID] = last
	return found
}

// alternates are the kinds of reasons that change with pods of other users.
var alternates = map[string]bool{framework.NotEnoughResources: true, framework.QueueFull: true, framework.NotEnqueued: true, framework.NotTried: true}

// keep drops the reports of gangs that no longer wait. waiting are the gangs that still wait.
func (t lastReports) keep(waiting map[api.JobID]framework.PendingReason) {
	maps.DeleteFunc(t, func(gang api.JobID, _ lastReport) bool {
		_, waits := waiting[gang]
		return !waits
	})
}

// gangFingerprint is the part of a gang's state that its users control. If it changes, a user may have removed the
// reason why the gang waits.
type gangFingerprint struct {
	uid         types.UID
	spec        scheduling.PodGroupSpec
	annotations map[string]string
	// pods is a hash of the gang's pods and their scheduling gates.
	pods uint64
}

var podSeed = maphash.MakeSeed()

func gangFingerprintOf(job *api.JobInfo) gangFingerprint {
	type pod struct {
		uid   api.TaskID
		gated bool
	}
	l := gangFingerprint{uid: job.PodGroup.UID, annotations: maps.Clone(job.PodGroup.Annotations)}
	job.PodGroup.Spec.DeepCopyInto(&l.spec)
	delete(l.annotations, api.JobAllocatedHyperNode) // written by the scheduler itself
	if job.PodGroup.Status.Phase != scheduling.PodGroupPending {
		l.spec.MinResources = nil // may have been replaced by what the gang holds (CapMinResources)
	}
	for uid, task := range job.Tasks {
		l.pods += maphash.Comparable(podSeed, pod{uid, gated(task)})
	}
	return l
}

func (l gangFingerprint) equal(other gangFingerprint) bool {
	return l.uid == other.uid && l.pods == other.pods &&
		maps.Equal(l.annotations, other.annotations) && equality.Semantic.DeepEqual(l.spec, other.spec)
}
