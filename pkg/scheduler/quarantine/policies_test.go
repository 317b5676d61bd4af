// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestSubGroupPoliciesAreBounded checks that sub-group policies are bounded. Each event of a pod compares the pod
// with all of its gang's sub-group policies. A PodGroup with too many is reported.
func TestSubGroupPoliciesAreBounded(t *testing.T) {
	many := func(n int) (values []string) {
		for i := range n {
			values = append(values, fmt.Sprint(i))
		}
		return values
	}
	policies := func(n int) (policies []v1beta1.SubGroupPolicySpec) {
		for _, name := range many(n) {
			policies = append(policies, v1beta1.SubGroupPolicySpec{Name: name, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}})
		}
		return policies
	}
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: many(10_000)}}}
	tests := map[string]struct {
		policies []v1beta1.SubGroupPolicySpec
		tooLarge bool
	}{
		"as many as there may be": {policies: policies(mostOfPolicies / 2)},
		"many":                    {policies: policies(10_000), tooLarge: true},
		"one of many values":      {policies: []v1beta1.SubGroupPolicySpec{{Name: "p", LabelSelector: selector}}, tooLarge: true},
		"one of many keys":        {policies: []v1beta1.SubGroupPolicySpec{{Name: "p", MatchLabelKeys: many(10_000)}}, tooLarge: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			group := schedtest.MakePodGroup().Name("g").Obj()
			group.Spec.SubGroupPolicy = tt.policies
			if _, err := Trimmed(group); err != nil {
				t.Fatal(err)
			}
			if !tt.tooLarge {
				if diff := cmp.Diff(tt.policies, group.Spec.SubGroupPolicy); diff != "" {
					t.Errorf("policies within the limit have changed (-want +got):\n%s", diff)
				}
			}
			size := 0
			for _, policy := range group.Spec.SubGroupPolicy {
				size += policySize(policy.LabelSelector, policy.MatchLabelKeys)
			}
			if size > 10*mostOfPolicies {
				t.Errorf("each pod is compared with %d policies, keys and values", size)
			}
			internal, err := podgroup.Internal(group)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := groupExcess(&internal.Spec); strings.Contains(wrong, "spec.subGroupPolicy") != tt.tooLarge {
				t.Errorf("the exceeded limit is %q, too large: %v", wrong, tt.tooLarge)
			}
		})
	}
}
