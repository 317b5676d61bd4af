// SPDX-License-Identifier: Apache-2.0

package apiwrite

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
)

// MergePatch returns a JSON merge patch with the difference between two objects; nil if the objects are equal. The patch
// also sets the preconditions in the metadata, such as the only resource version that may be patched.
func MergePatch(from, to metav1.Object, preconditions map[string]any) ([]byte, error) {
	before, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	text, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
	if err != nil || string(text) == "{}" {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, err
	}
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	maps.Copy(metadata, preconditions)
	return json.Marshal(patch)
}
