// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strconv"
	"testing"

	"volcano.sh/volcano/pkg/controllers/job/helpers"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestIndexOfIsUpstreams checks that tasks are sorted by the index that upstream's task order reads from their names.
func TestIndexOfIsUpstreams(t *testing.T) {
	for _, name := range []string{"", "-", "--", "p", "p-1", "p-1-", "p-1-2", "p--3", "--4", "job-worker-10", "job-worker-x", "a-b-c-007", "a-b--5", "a-b-1x"} {
		number, err := strconv.Atoi(helpers.GetPodIndexUnderTask(schedtest.MakePod().Name(name).Obj()))
		got, ok := indexOf(name)
		if ok != (err == nil) || ok && got != number {
			t.Errorf("indexOf(%q) = %d, %t, want %d, %t", name, got, ok, number, err == nil)
		}
	}
}
