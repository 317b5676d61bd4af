// SPDX-License-Identifier: Apache-2.0

package powerup

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// budget records the power reserved for starting pods, in watts, by rack.
type budget struct {
	mu    sync.Mutex
	drawn map[string]map[types.UID]int
}

func newBudget() *budget { return &budget{drawn: map[string]map[types.UID]int{}} }

// free returns the watts of the rack that are not reserved; has is the total.
func (b *budget) free(rack string, has int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return has - b.sum(rack)
}

// take reserves watts for the pod. It reports whether the rack had enough.
func (b *budget) take(rack string, has int, pod types.UID, watts int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sum(rack)+watts > has {
		return false
	}
	if b.drawn[rack] == nil {
		b.drawn[rack] = map[types.UID]int{}
	}
	b.drawn[rack][pod] = watts
	return true
}

func (b *budget) release(rack string, pod types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.drawn[rack], pod)
	if len(b.drawn[rack]) == 0 {
		delete(b.drawn, rack)
	}
}

func (b *budget) sum(rack string) (watts int) {
	for _, w := range b.drawn[rack] {
		watts += w
	}
	return watts
}
