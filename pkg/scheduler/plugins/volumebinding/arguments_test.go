// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func point(utilization, score any) map[any]any {
	return map[any]any{"utilization": utilization, "score": score}
}

func TestArguments(t *testing.T) {
	cases := map[string]struct {
		args framework.Arguments
		want settings
		errs []string
	}{
		"none": {want: settings{weight: 1, bindTimeout: 10 * time.Minute}},
		"all": {
			args: framework.Arguments{weightArgument: 0, bindTimeoutArgument: 5, shapeArgument: []any{point(0, 0), point(100, 10)}},
			want: settings{bindTimeout: 5 * time.Second, shape: helper.FunctionShape{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 100}}},
		},
		"out of bounds": {
			args: framework.Arguments{weightArgument: -1, bindTimeoutArgument: 0, shapeArgument: []any{point(101, 11), point(1, "x")}},
			errs: []string{
				"volumebinding.weight: found -1, want a whole number from 0 to 1000000",
				"volumebinding.bindTimeoutSeconds: found 0, want a whole number from 1 to 86400",
				"volumebinding.shape[0].utilization: found 101, want a whole number from 0 to 100",
				"volumebinding.shape[0].score: found 11, want a whole number from 0 to 10",
				"volumebinding.shape[1].score: found x, want a whole number from 0 to 10",
			},
		},
		"not rising": {
			args: framework.Arguments{shapeArgument: []any{point(50, 0), point(50, 10)}},
			errs: []string{"volumebinding.shape[1].utilization: found 50, want more than the 50 before it"},
		},
		"an empty shape": {
			args: framework.Arguments{shapeArgument: []any{}},
			errs: []string{"volumebinding.shape: found [], want a list of points"},
		},
		"an unknown field": {
			args: framework.Arguments{shapeArgument: []any{map[any]any{"utilisation": 1}}},
			errs: []string{`volumebinding.shape[0]: key "utilisation" is unknown; known are score, utilization`},
		},
		"no mapping": {
			args: framework.Arguments{shapeArgument: []any{7}},
			errs: []string{"volumebinding.shape[0]: found 7, want a mapping with utilization and score"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := load(tc.args)
			if len(tc.errs) == 0 {
				if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(settings{})); err != nil || diff != "" {
					t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.errs {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v\nlacks %s", err, want)
				}
			}
			if Spec().Validate(tc.args) == nil {
				t.Error("Validate takes it")
			}
		})
	}
}

// TestScores: by the volumes found, or by what is left of what they are made from; and not at all unless the conf asks for it.
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
			run(t, tc.args, with(someNodes("n1", "n2"), tc.objects), func(w *world) {
				if w.plugin.scores() != (tc.args != nil) {
					t.Errorf("scores is %v", w.plugin.scores())
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
