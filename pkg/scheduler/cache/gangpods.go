// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// gangPods holds, for each gang, the UIDs of the pods that the informer shows, in any state.
type gangPods struct {
	mu  sync.Mutex
	all map[api.JobID]map[types.UID]bool
}

func newGangPods() *gangPods { return &gangPods{all: map[api.JobID]map[types.UID]bool{}} }

func (g *gangPods) add(gang api.JobID, pod types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[gang] == nil {
		g.all[gang] = map[types.UID]bool{}
	}
	g.all[gang][pod] = true
}

func (g *gangPods) remove(gang api.JobID, pod types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all[gang], pod)
	if len(g.all[gang]) == 0 {
		delete(g.all, gang)
	}
}

// enough reports whether the PodGroup's gang has at least minMember pods.
func (g *gangPods) enough(pg *v1beta1.PodGroup) bool {
	return int32(g.count(api.JobID(pg.Namespace+"/"+pg.Name))) >= pg.Spec.MinMember
}

func (g *gangPods) count(gang api.JobID) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all[gang])
}
