// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"volcano.sh/volcano/pkg/webhooks/router"
)

// TestMessages compares the messages with which the webhooks reject an object.
func TestMessages(t *testing.T) {
	rejection := func(path, object string) string {
		service := &router.AdmissionService{Path: path, Func: func(admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true}
		}}
		if err := prepare(service); err != nil {
			t.Fatal(err)
		}
		answer := service.Func(review(admissionv1.Create, object))
		if answer.Allowed {
			return "allowed"
		}
		return answer.Result.Message
	}
	got := map[string]string{
		"a PodGroup":                   rejection("/podgroups/validate", `{"spec":{"minResources":{"cpu":"-5","memory":"1Gi"}}}`),
		"a PodGroup, two amounts":      rejection("/podgroups/validate", `{"spec":{"minResources":{"cpu":"-500m","memory":"-1Gi"}}}`),
		"a PodGroup, seven amounts":    rejection("/podgroups/validate", `{"spec":{"minResources":{"a":-1,"b":-1,"c":-1,"d":-1,"e":-1,"f":-1,"g":-1}}}`),
		"a PodGroup without amounts":   rejection("/podgroups/validate", `{"spec":{}}`),
		"a queue's capability":         rejection("/queues/validate", `{"spec":{"capability":{"cpu":"-1m"}}}`),
		"a queue's deserved":           rejection("/queues/validate", `{"spec":{"deserved":{"cpu":-1}}}`),
		"a queue's guarantee":          rejection("/queues/validate", `{"spec":{"guarantee":{"resource":{"pods":-3}}}}`),
		"a capacity of a queue":        rejection("/queues/validate", `{"spec":{"extendClusters":[{"capacity":{"cpu":1}},{"capacity":{"cpu":-1}}]}}`),
		"several fields of a queue":    rejection("/queues/validate", `{"spec":{"deserved":{"cpu":-1},"capability":{"memory":"-1Gi"}}}`),
		"an object of another webhook": rejection("/jobs/validate", `{"spec":{"minResources":{"cpu":"-5"}}}`),
	}
	want := map[string]string{
		"a PodGroup":              "spec.minResources[cpu] is -5, must be 0 or more",
		"a PodGroup, two amounts": "spec.minResources[cpu] is -500m, must be 0 or more; spec.minResources[memory] is -1Gi, must be 0 or more",
		"a PodGroup, seven amounts": "spec.minResources[a] is -1, must be 0 or more; spec.minResources[b] is -1, must be 0 or more; spec.minResources[c] is -1, must be 0 or more; " +
			"spec.minResources[d] is -1, must be 0 or more; spec.minResources[e] is -1, must be 0 or more; and 2 more",
		"a PodGroup without amounts":   "allowed",
		"a queue's capability":         "spec.capability[cpu] is -1m, must be 0 or more",
		"a queue's deserved":           "spec.deserved[cpu] is -1, must be 0 or more",
		"a queue's guarantee":          "spec.guarantee.resource[pods] is -3, must be 0 or more",
		"a capacity of a queue":        "spec.extendClusters[1].capacity[cpu] is -1, must be 0 or more",
		"several fields of a queue":    "spec.capability[memory] is -1Gi, must be 0 or more; spec.deserved[cpu] is -1, must be 0 or more",
		"an object of another webhook": "allowed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// interrupted is a body that fails while it is read, as if the connection broke.
type interrupted struct{}

func (interrupted) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// zeros is a body of zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestMessagesOfRequests compares the answers to requests that the webhooks cannot read as a review.
func TestMessagesOfRequests(t *testing.T) {
	answer := func(body io.Reader, length int64) string {
		request := httptest.NewRequest(http.MethodPost, "/podgroups/validate", body)
		request.ContentLength = length
		recorder := httptest.NewRecorder()
		limitBody(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })(recorder, request)
		return strings.TrimSpace(http.StatusText(recorder.Code) + ": " + recorder.Body.String())
	}
	got := map[string]string{
		"a review":                     answer(strings.NewReader("{}"), 2),
		"a large review":               answer(zeros{}, maxBody+1),
		"a large review of any length": answer(zeros{}, -1),
		"an interrupted review":        answer(interrupted{}, -1),
	}
	want := map[string]string{
		"a review":                     "OK:",
		"a large review":               "Request Entity Too Large: the review has 7340033 bytes, must have at most 7340032",
		"a large review of any length": "Request Entity Too Large: the review has more than 7340032 bytes, the limit",
		"an interrupted review":        "Bad Request: the review cannot be read: connection reset by peer",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
