// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// wireTopology is a ClusterNetworkTopology with every field, as Koordinator's scheduler writes it.
const wireTopology = `{
  "apiVersion": "scheduling.koordinator.sh/v1alpha1",
  "kind": "ClusterNetworkTopology",
  "metadata": {"name": "default"},
  "spec": {"networkTopologySpec": [
    {"topologyLayer": "SpineLayer", "labelKey": ["example.com/spine"]},
    {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": ["example.com/block", "example.com/pod"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"}
  ]},
  "status": {"detailStatus": [
    {"topologyInfo": {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""}, "childTopologyLayer": "SpineLayer", "childTopologyNames": ["s1"], "nodeNum": 2},
    {"topologyInfo": {"topologyLayer": "SpineLayer", "topologyName": "s1"},
     "parentTopologyInfo": {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""}, "nodeNum": 2}
  ]}
}`

// TestTopologiesAreReadAndWrittenWhole checks that this package knows each field that Koordinator writes, and that no
// field is lost when the object is written.
func TestTopologiesAreReadAndWrittenWhole(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	read, err := runtime.Decode(codecs.UniversalDeserializer(), []byte(wireTopology))
	if err != nil {
		t.Fatal(err)
	}
	written, err := runtime.Encode(codecs.LegacyCodec(SchemeGroupVersion), read.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain(t, []byte(wireTopology)), plain(t, written)); diff != "" {
		t.Errorf("written object (-read +written):\n%s", diff)
	}
}
