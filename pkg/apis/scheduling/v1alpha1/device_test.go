// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// wire is a Device as Koordinator's agent writes it, with every field.
const wire = `{
  "apiVersion": "scheduling.koordinator.sh/v1alpha1",
  "kind": "Device",
  "metadata": {
    "name": "n1",
    "labels": {"node.koordinator.sh/gpu-vendor": "nvidia"},
    "annotations": {"scheduling.koordinator.sh/gpu-partitions": "{}"}
  },
  "spec": {"devices": [
    {
      "type": "gpu", "id": "GPU-8c2e", "minor": 0, "moduleID": 3, "health": true, "labels": {"model": "h800"},
      "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "83201216Ki"},
      "topology": {"socketID": 0, "nodeID": 1, "pcieID": "pci0000:15", "busID": "0000:19:00.0"},
      "conditions": [{"type": "Healthy", "status": "True", "reason": "Probed", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]
    },
    {
      "type": "rdma", "id": "0000:1f:00.0", "minor": 1, "health": false,
      "vfGroups": [{"labels": {"type": "general"}, "vfs": [{"minor": 0, "busID": "0000:1f:00.2"}, {"minor": 1}]}]
    }
  ]},
  "status": {"allocations": [{"type": "gpu", "entries": [{"name": "p", "namespace": "ns", "uuid": "1234", "minors": [0, 1]}]}]}
}`

// TestDevicesAreReadAndWrittenWhole checks that this package knows each field that the agent writes, and that no
// field is lost when the object is written.
func TestDevicesAreReadAndWrittenWhole(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	read, err := runtime.Decode(codecs.UniversalDeserializer(), []byte(wire))
	if err != nil {
		t.Fatal(err)
	}
	device, ok := read.DeepCopyObject().(*Device)
	if !ok {
		t.Fatalf("it is read as %T", read)
	}
	if device.Spec.Devices[0].Minor == read.(*Device).Spec.Devices[0].Minor {
		t.Error("a deep copy shares a pointer")
	}
	written, err := runtime.Encode(codecs.LegacyCodec(SchemeGroupVersion), device)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain(t, []byte(wire)), plain(t, written)); diff != "" {
		t.Errorf("written object (-read +written):\n%s", diff)
	}
}

func plain(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&value); err != nil {
		t.Fatal(err)
	}
	delete(value.(map[string]any)["metadata"].(map[string]any), "creationTimestamp")
	return value
}
