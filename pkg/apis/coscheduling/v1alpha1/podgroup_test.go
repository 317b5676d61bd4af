// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// wire is a PodGroup as Koordinator writes it, with every field. The test fills in the API group.
const wire = `{
  "apiVersion": "", "kind": "PodGroup",
  "metadata": {"name": "g", "namespace": "ns", "annotations": {"gang.scheduling.koordinator.sh/mode": "NonStrict"}},
  "spec": {"minMember": 3, "minResources": {"cpu": "3"}, "scheduleTimeoutSeconds": 90},
  "status": {
    "phase": "Scheduled", "occupiedBy": "ns/job", "scheduled": 3, "running": 2, "succeeded": 1, "failed": 1,
    "scheduleStartTime": "2026-01-02T03:04:05Z"
  }
}`

// TestPodGroupsAreReadAndWrittenWhole checks that this package knows each field that others write, and that no field
// is lost when the object is written.
func TestPodGroupsAreReadAndWrittenWhole(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	for _, version := range []string{"scheduling.sigs.k8s.io/v1alpha1", "scheduling.x-k8s.io/v1alpha1"} {
		t.Run(version, func(t *testing.T) {
			want := plain(t, []byte(wire))
			want["apiVersion"] = version
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			read, err := runtime.Decode(codecs.UniversalDeserializer(), text)
			if err != nil {
				t.Fatal(err)
			}
			written, err := json.Marshal(read.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, plain(t, written)); diff != "" {
				t.Errorf("written object (-read +written):\n%s", diff)
			}
		})
	}
}

func plain(t *testing.T, text []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
