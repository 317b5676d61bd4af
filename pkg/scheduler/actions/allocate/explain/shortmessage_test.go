// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestReasonsKeepTheirNames checks that a reason that names a claim and its class keeps both names, and that the
// message is bounded, whatever the number of groups and the texts of plugins.
func TestReasonsKeepTheirNames(t *testing.T) {
	explanation := func(groups int, reason string) framework.GangExplanation {
		e := framework.GangExplanation{Needed: 8, Required: true}
		for i := range groups {
			e.Groups = append(e.Groups, framework.NodeGroupExplanation{Group: fmt.Sprintf("ib-%d", i), Nodes: 4, Reasons: map[string]int{reason: 4}})
		}
		return e
	}
	reason := `can neither offer nor provision a volume for claim "dataset-of-training-7" (storage class "fast-local-nvme")`
	if got, want := shortMessage(explanation(2, reason), 0), "no node group holds the 8 members needed: ib-0 0/8: 4 nodes "+reason+"; ib-1 0/8: 4 nodes "+reason; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, reason := range []string{reason, strings.Repeat("x", 10_000)} {
		if got := shortMessage(explanation(100, reason), 0); len(got) > brief.Most || !strings.HasSuffix(got, " more") {
			t.Errorf("%d bytes, want %d at the most, and that there is more: %s", len(got), brief.Most, got)
		}
	}
}
