// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestQueueField(t *testing.T) {
	for source, want := range map[string]string{
		"":                    "spec.queue",
		"annotations":         "the annotation scheduling.volcano.sh/queue-name",
		"scheduling.sigs.k8s": "the annotation scheduling.volcano.sh/queue-name",
	} {
		group := &metav1.ObjectMeta{Name: "g", Annotations: map[string]string{SourceAnnotation: source}}
		if got := QueueField(group); got != want {
			t.Errorf("of a PodGroup with source %q: %q, want %q", source, got, want)
		}
	}
}
