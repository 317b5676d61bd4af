// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func point(utilization, score any) map[any]any {
	return map[any]any{"utilization": utilization, "score": score}
}

// TestScores checks scores by the size of the found volumes, or by the remaining capacity for new volumes. Without the
// argument the plugin does not score.
func TestScores(t *testing.T) {
	packs := framework.Arguments{weightArgument: 3, shapeArgument: []any{point(0, 0), point(100, 10)}}
	wide := local("v", "n1")
	wide.Spec.Capacity = schedtest.UnboundClaim("", "").Spec.Resources.Requests.DeepCopy()
	half := local("half", "n2")
	quantity := half.Spec.Capacity["storage"]
	quantity.Add(quantity)
	half.Spec.Capacity["storage"] = quantity
	cases := map[string]struct {
		args    framework.Arguments
		objects []runtime.Object
		claim   string
		want    map[string]float64
	}{
		"local volumes": {
			args: packs, objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), wide, half}, claim: "c",
			want: map[string]float64{"n1": 300, "n2": 150},
		},
		"volumes made where capacity is known": {
			args: packs, objects: append(capacity("4Gi", "n1"), schedtest.UnboundClaim("c", "made")), claim: "c",
			want: map[string]float64{"n1": 75, "n2": 0},
		},
		"volumes made without capacity": {
			args: packs, objects: []runtime.Object{schedtest.UnboundClaim("c", "made")}, claim: "c",
			want: map[string]float64{"n1": 0, "n2": 0},
		},
		"Kubernetes' own shape": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), wide, half}, claim: "c",
			want: map[string]float64{"n1": 0, "n2": 50},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, tc.args, with(someNodes("n1", "n2"), tc.objects), func(w *testCluster) {
				if w.plugin.scores() != (tc.args != nil) {
					t.Errorf("the plugin scores nodes: %v", w.plugin.scores())
				}
				got := map[string]float64{}
				for name, node := range w.session.users.nodes {
					score, err := w.session.nodeOrder(member("g-0", tc.claim), node)
					if err != nil {
						t.Fatal(err)
					}
					got[name] = score
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("scores (-want +got):\n%s", diff)
				}
			})
		})
	}
}
