// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessages compares the messages of failures that the ledger adds to the engine's (package binding).
func TestMessages(t *testing.T) {
	got := map[string]string{
		"the PodGroup was deleted":    deletedPodGroup(gang).Error(),
		"the node was deleted":        deletedNode("n").Error(),
		"members could not be placed": errIncomplete.Error(),
	}
	want := map[string]string{
		"the PodGroup was deleted":    "PodGroup ns/g does not exist",
		"the node was deleted":        "node n was deleted",
		"members could not be placed": "the rest of the gang's minimum could not be placed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
