// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

// TestCRDsRejectLessThanNothing checks that the CRDs alone make the API server reject negative amounts of resources,
// which make upstream's scheduler panic. This needs no webhook.
func TestCRDsRejectLessThanNothing(t *testing.T) {
	cp, err := Start(t.Context(), Options{Progress: t.Output(), NoControllerManager: true, NoKWOK: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := cp.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := vcclient.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		name, amount string
		accepted     bool
	}{
		"cpu below 0":         {name: "cpu", amount: "-5"},
		"a little below 0":    {name: "cpu", amount: "-1m"},
		"devices below 0":     {name: "nvidia.com/gpu", amount: "-5"},
		"pods below 0":        {name: "pods", amount: "-3"},
		"far below 0":         {name: "memory", amount: "-1e30"},
		"nothing":             {name: "cpu", amount: "0", accepted: true},
		"some":                {name: "memory", amount: "10Gi", accepted: true},
		"as little as can be": {name: "cpu", amount: "1n", accepted: true},
		"as much as can be":   {name: "cpu", amount: "1e30", accepted: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			list := corev1.ResourceList{corev1.ResourceName(tt.name): resource.MustParse(tt.amount)}
			for field, err := range createWith(t, client, list) {
				if tt.accepted && err != nil || !tt.accepted && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be 0 or more")) {
					t.Errorf("%s %s in %s: the API server returns %v", tt.name, tt.amount, field, err)
				}
			}
		})
	}
}

// createWith creates objects in a dry run, each with the amounts of list in another field. It returns the API server's
// error for each field.
func createWith(t *testing.T, client vcclient.Interface, list corev1.ResourceList) map[string]error {
	t.Helper()
	said := map[string]error{}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, said["spec.minResources"] = client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "amounts"}, Spec: schedulingv1beta1.PodGroupSpec{MinMember: 1, MinResources: &list},
	}, dryRun)
	for field, spec := range map[string]schedulingv1beta1.QueueSpec{
		"spec.capability":         {Weight: 1, Capability: list},
		"spec.deserved":           {Weight: 1, Deserved: list},
		"spec.guarantee.resource": {Weight: 1, Guarantee: schedulingv1beta1.Guarantee{Resource: list}},
	} {
		queue := &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "amounts"}, Spec: spec}
		_, said[field] = client.SchedulingV1beta1().Queues().Create(t.Context(), queue, dryRun)
	}
	return said
}
