// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/cmd/webhook-manager/app/options"
	"volcano.sh/volcano/pkg/webhooks/router"
)

func review(operation admissionv1.Operation, object string) admissionv1.AdmissionReview {
	return admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		Operation: operation, Object: runtime.RawExtension{Raw: []byte(object)},
	}}
}

func TestNegativeAmountsAreRejected(t *testing.T) {
	tests := map[string]struct {
		path, object string
		operation    admissionv1.Operation
		// want is the text of the rejection. It is empty if upstream's webhook decides on the review.
		want string
	}{
		"a PodGroup": {
			path: "/podgroups/validate", object: `{"spec":{"minResources":{"cpu":"-5","memory":"1Gi"}}}`,
			want: "spec.minResources[cpu] is -5, must be 0 or more",
		},
		"a PodGroup, several": {
			path: "/podgroups/validate", object: `{"spec":{"minResources":{"a":-1,"b":-1,"c":-1,"d":-1,"e":-1,"f":-1,"g":-1}}}`,
			want: "spec.minResources[e] is -1, must be 0 or more; and 2 more",
		},
		"a PodGroup that needs something": {path: "/podgroups/validate", object: `{"spec":{"minResources":{"cpu":"5"}}}`},
		"a PodGroup that needs nothing":   {path: "/podgroups/validate", object: `{"spec":{}}`},
		"no PodGroup":                     {path: "/podgroups/validate", object: `[]`},
		"a queue's capability":            {path: "/queues/validate", object: `{"spec":{"capability":{"cpu":"-1m"}}}`, want: "spec.capability[cpu] is -1m"},
		"a queue's deserved":              {path: "/queues/validate", object: `{"spec":{"deserved":{"cpu":-1}}}`, want: "spec.deserved[cpu] is -1"},
		"a queue's guarantee":             {path: "/queues/validate", object: `{"spec":{"guarantee":{"resource":{"pods":-3}}}}`, want: "spec.guarantee.resource[pods] is -3"},
		"a queue's cluster":               {path: "/queues/validate", object: `{"spec":{"extendClusters":[{"capacity":{"cpu":-1}}]}}`, want: "spec.extendClusters[0].capacity[cpu] is -1"},
		"a queue that is deleted":         {path: "/queues/validate", operation: admissionv1.Delete, object: `{"spec":{"capability":{"cpu":"-1m"}}}`},
		"something else":                  {path: "/jobs/validate", object: `{"spec":{"minResources":{"cpu":"-5"}}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			asked := false
			service := &router.AdmissionService{Path: tt.path, Func: func(admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
				asked = true
				return &admissionv1.AdmissionResponse{Allowed: true}
			}}
			if err := rejectNegative(service); err != nil {
				t.Fatal(err)
			}
			answer := service.Func(review(tt.operation, tt.object))
			if answer.Allowed != (tt.want == "") || asked != answer.Allowed {
				t.Fatalf("allowed is %v and upstream was asked: %v", answer.Allowed, asked)
			}
			if !answer.Allowed && !strings.Contains(answer.Result.Message, tt.want) {
				t.Errorf("the rejection is %q, want %q", answer.Result.Message, tt.want)
			}
		})
	}
}

// TestServicesRejectNegativeAmounts checks that the services that upstream registered reject negative amounts once
// main has prepared them.
func TestServicesRejectNegativeAmounts(t *testing.T) {
	for path, object := range map[string]string{
		"/podgroups/validate": `{"spec":{"minResources":{"cpu":"-5"}}}`, "/queues/validate": `{"spec":{"deserved":{"cpu":"-5"}}}`,
	} {
		config := options.NewConfig()
		config.EnabledAdmission = path
		if err := router.ForEachAdmission(config, prepare); err != nil {
			t.Fatal(err)
		}
		err := router.ForEachAdmission(config, func(service *router.AdmissionService) error {
			answer := service.Func(review(admissionv1.Create, object))
			if answer.Allowed || !strings.Contains(answer.Result.Message, "is -5, must be 0 or more") {
				t.Errorf("%s answers %+v", path, answer)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
