// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAMovedGangLeavesNoMetrics checks that a gang that moved to another queue leaves no metrics. A tenant may write
// any queue into a PodGroup as often as it likes.
func TestAMovedGangLeavesNoMetrics(t *testing.T) {
	b := New(Config{DefaultQueue: schedtest.Queue})
	for i := range 10 {
		if err := b.Jobs.ShowGroup(schedtest.MakePodGroup().Name("moved").Queue(fmt.Sprintf("q%d", i)).Obj()); err != nil {
			t.Fatal(err)
		}
	}
	if got := seriesOf(t, "moved"); got != 1 {
		t.Errorf("the gang has %d series, want one of its queue", got)
	}
	b.Jobs.HideGroup(schedtest.Namespace + "/moved")
	if got := seriesOf(t, "moved"); got != 0 {
		t.Errorf("the gang that ended has %d series", got)
	}
}

// seriesOf counts the series that name the job.
func seriesOf(t *testing.T, job string) (series int) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "job_name" && label.GetValue() == job {
					series++
				}
			}
		}
	}
	return series
}
