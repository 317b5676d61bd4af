// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/google/go-cmp/cmp"
)

type inlined struct {
	Inner string `json:"inner"`
}

type sample struct {
	inlined   `json:",inline"`
	Number    int32                        `json:"number,omitempty"`
	Flag      *bool                        `json:"flag"`
	Ratio     float64                      `json:"ratio"`
	When      metav1.Time                  `json:"when"`
	Amount    map[string]resource.Quantity `json:"amount"`
	Port      intstr.IntOrString           `json:"port"`
	Raw       json.RawMessage              `json:"raw"`
	Data      []byte                       `json:"data"`
	Children  []*sample                    `json:"children"`
	Any       any                          `json:"any"`
	Untagged  string
	Skipped   string `json:"-"`
	unencoded string
}

var _ = sample{}.unencoded // JSON ignores the field, so it has no other use

func TestDeclare(t *testing.T) {
	d := newDeclarer()
	got := map[string]string{}
	for name, field := range typeOf[sample](d).Fields {
		got[name] = field.Type.CelType().String()
	}
	want := map[string]string{
		"inner":    "string",
		"number":   "int",
		"flag":     "bool",
		"ratio":    "double",
		"when":     "string",
		"amount":   "map(string, string)",
		"port":     "dyn",
		"raw":      "dyn",
		"data":     "string",
		"children": "list(dyn)",
		"any":      "dyn",
		"Untagged": "string",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types of the fields (-want +got):\n%s", diff)
	}
	if first, second := typeOf[sample](d), typeOf[sample](d); first != second {
		t.Error("a struct has two CEL types, want one")
	}
}
