// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// TestConditionsOfAPluginThatIsNotConfigured checks that conditions that say what plugin coscheduling does with a gang
// are removed once the configuration no longer has the plugin. Conditions that say what the gang has reached stay.
func TestConditionsOfAPluginThatIsNotConfigured(t *testing.T) {
	reached := []scheduling.PodGroupConditionType{gangs.SatisfiedCondition, gangs.WholeCondition, scheduling.PodGroupUnschedulableType}
	ofPlugin := []scheduling.PodGroupConditionType{"GangTimeLimit", "InvalidGangSettings", "NodeReservation"}
	tests := map[string]struct {
		others []conf.PluginOption
		want   []scheduling.PodGroupConditionType
	}{
		"without the plugin": {nil, reached},
		"with the plugin":    {[]conf.PluginOption{{Name: gangs.Plugin}}, append(append([]scheduling.PodGroupConditionType{}, ofPlugin...), reached...)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			status := &c.Jobs["ns/waits"].PodGroup.Status
			for _, kind := range append(append([]scheduling.PodGroupConditionType{}, ofPlugin...), reached...) {
				status.Conditions = append(status.Conditions, scheduling.PodGroupCondition{Type: kind, Status: v1.ConditionTrue, Reason: gangs.TimedOut})
			}
			shared := status.Conditions
			sessions(t, c, 0, tt.others...)(nil)
			var got []scheduling.PodGroupConditionType
			for _, condition := range c.Jobs["ns/waits"].PodGroup.Status.Conditions {
				got = append(got, condition.Type)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions after a session (-want +got):\n%s", diff)
			}
			if shared[0].Type != ofPlugin[0] {
				t.Error("the session has changed the conditions of the cache's PodGroup")
			}
		})
	}
}
