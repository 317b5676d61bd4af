// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// TestAForgedConditionDecidesNothing: a tenant may write or delete the condition that says since when a gang is
// partially bound. Its members are still evicted at the right time.
func TestAForgedConditionDecidesNothing(t *testing.T) {
	tests := map[string]func(pg *api.PodGroup, partiallyBound *scheduling.PodGroupCondition){
		"dated in the past": func(_ *api.PodGroup, c *scheduling.PodGroupCondition) {
			c.LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
		},
		"dated in the future": func(_ *api.PodGroup, c *scheduling.PodGroupCondition) {
			c.LastTransitionTime = metav1.NewTime(time.Now().Add(time.Hour))
		},
		"deleted": func(pg *api.PodGroup, _ *scheduling.PodGroupCondition) { pg.Status.Conditions = nil },
	}
	for name, forge := range tests {
		for _, inFlight := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in flight: %t", name, inFlight), func(t *testing.T) {
				c := newCache(t)
				synctest.Test(t, func(t *testing.T) {
					session := sessions(t, c, time.Minute)
					session(nil)
					if inFlight {
						c.setStatus("half", "1", api.Binding)
						session(nil)
					}
					for i := range 7 {
						if condition := conditions.Find(&c.Jobs["ns/half"].PodGroup.Status, PartiallyBound); condition != nil {
							forge(c.Jobs["ns/half"].PodGroup, condition)
						}
						if time.Sleep(10 * time.Second); i == 5 {
							time.Sleep(time.Second)
						}
						session(nil)
						if want := i >= 5; (len(c.evicted) > 0) != want {
							t.Fatalf("after %d s members are evicted: %v, want it after 60", 10*(i+1), c.evicted)
						}
					}
				})
			})
		}
	}
}
