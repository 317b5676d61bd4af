// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"hash/maphash"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// An explanation names numbers that change with whatever others do in the cluster, and each text that is told is written to the
// gang's PodGroup and to each of its pods, with an event each. So a text that differs in its words only is told after a pause.
const (
	// firstPause is about how long somebody who has just submitted a gang looks at it, and as long as the loop rests at most.
	firstPause = 15 * time.Second
	// longestPause bounds how old the numbers of a gang are that waits for hours, and keeps a gang of a thousand pods in a busy
	// cluster to about two writes and two events a second.
	longestPause = 8 * time.Minute
)

// tellings are what gangs that wait were told last. A gang that does not wait is not among them.
type tellings map[api.JobID]telling

// telling is what a gang was told last, what the gang was like, and the pauses of the reasons that it was told.
type telling struct {
	wait   Wait
	gang   likeness
	pauses map[string]pause
}

// pause is how long after it was told a reason is not told again, and until when that is.
type pause struct {
	length time.Duration
	until  time.Time
}

// pace returns what the gang is told now: what was found, or what it was told last while a pause since the reason was told lasts. The
// pause doubles each time; a reason that is new, or another spec or other pods of the gang itself, are told at once. Each reason has
// a pause of its own, for in a cluster that is about full a gang's reason comes and goes with each pod of others.
func (t tellings) pace(job *api.JobInfo, found Wait) Wait {
	last, known := t[job.UID]
	if known && last.wait == found {
		return found
	}
	gang := likenessOf(job)
	if !known || !last.gang.equal(gang) {
		last = telling{gang: gang, pauses: map[string]pause{}}
	}
	p, again := last.pauses[found.Reason]
	switch {
	case !again:
		p.length = firstPause
	case time.Now().Before(p.until):
		return last.wait
	default:
		p.length = min(2*p.length, longestPause)
	}
	p.until = time.Now().Add(p.length)
	last.wait, last.pauses[found.Reason] = found, p
	t[job.UID] = last
	return found
}

// keep forgets the gangs that do not wait.
func (t tellings) keep(waiting map[api.JobID]Wait) {
	maps.DeleteFunc(t, func(gang api.JobID, _ telling) bool {
		_, waits := waiting[gang]
		return !waits
	})
}

// likeness is what users change when they mend a gang that waits.
type likeness struct {
	uid         types.UID
	spec        scheduling.PodGroupSpec
	annotations map[string]string
	// pods stands for which pods there are, and which of them have scheduling gates.
	pods uint64
}

var podSeed = maphash.MakeSeed()

func likenessOf(job *api.JobInfo) likeness {
	type pod struct {
		uid   api.TaskID
		gated bool
	}
	l := likeness{uid: job.PodGroup.UID, annotations: maps.Clone(job.PodGroup.Annotations)}
	job.PodGroup.Spec.DeepCopyInto(&l.spec)
	delete(l.annotations, api.JobAllocatedHyperNode) // the scheduler's own
	if job.PodGroup.Status.Phase != scheduling.PodGroupPending {
		l.spec.MinResources = nil // how much of them counts depends on others
	}
	for uid, task := range job.Tasks {
		l.pods += maphash.Comparable(podSeed, pod{uid, gated(task)})
	}
	return l
}

func (l likeness) equal(other likeness) bool {
	return l.uid == other.uid && l.pods == other.pods &&
		maps.Equal(l.annotations, other.annotations) && equality.Semantic.DeepEqual(l.spec, other.spec)
}
