// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestMessages has the errors of invalid weights. They appear in the output of --validate-conf and in event
// ConfigRejected.
func TestMessages(t *testing.T) {
	validate := func(args framework.Arguments) string {
		_, err := Spec().Load(args)
		return fmt.Sprint(err)
	}
	got := map[string]string{
		"a weight below 0":       validate(framework.Arguments{"leastrequested.weight": -1}),
		"a weight that is large": validate(framework.Arguments{"imagelocality.weight": framework.MaxWeight + 1}),
		"two of them":            validate(framework.Arguments{"podaffinity.weight": -2, "mostrequested.weight": -3}),
		"the largest weight":     validate(framework.Arguments{"podaffinity.weight": framework.MaxWeight}),
	}
	want := map[string]string{
		"a weight below 0":       "leastrequested.weight: found -1, want a weight from 0 to 1000000",
		"a weight that is large": "imagelocality.weight: found 1000001, want a weight from 0 to 1000000",
		"two of them":            "mostrequested.weight: found -3, want a weight from 0 to 1000000\npodaffinity.weight: found -2, want a weight from 0 to 1000000",
		"the largest weight":     "<nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
