// SPDX-License-Identifier: Apache-2.0

package apiwrite

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRejectedForGood(t *testing.T) {
	pods, kind := schema.GroupResource{Resource: "pods"}, schema.GroupKind{Kind: "Pod"}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"invalid":                 {apierrors.NewInvalid(kind, "p", nil), true},
		"a bad request":           {apierrors.NewBadRequest("no"), true},
		"too large for the API":   {apierrors.NewRequestEntityTooLargeError("3 MB"), true},
		"too large for etcd":      {apierrors.NewInternalError(errors.New("etcdserver: request is too large")), true},
		"too large for transport": {errors.New("rpc error: trying to send message larger than max"), true},
		"another internal error":  {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), false},
		"a conflict":              {apierrors.NewConflict(pods, "p", errors.New("changed")), false},
		"not found":               {apierrors.NewNotFound(pods, "p"), false},
		"forbidden":               {apierrors.NewForbidden(pods, "p", errors.New("no role")), false},
		"no answer":               {errors.New("connection refused"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := RejectedForGood(tt.err); got != tt.want {
				t.Errorf("RejectedForGood(%v) is %t, want %t", tt.err, got, tt.want)
			}
		})
	}
}

func TestOlderVersion(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"", "10", false}, {"10", "", false}, {"v1", "v2", false},
	}
	for _, tt := range tests {
		if got := OlderVersion(tt.a, tt.b); got != tt.want {
			t.Errorf("OlderVersion(%q, %q) is %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDigest(t *testing.T) {
	first, second := Digest("a", 1), Digest("a", 1)
	if first != second {
		t.Error("equal values have different digests")
	}
	seen := map[uint64][]any{}
	for _, values := range [][]any{{"a", 1}, {"a", 2}, {"a1"}, {"a", "1"}, {}, {nil}} {
		digest := Digest(values...)
		if before, taken := seen[digest]; taken {
			t.Errorf("%v and %v have the same digest", before, values)
		}
		seen[digest] = values
	}
}

func TestMergePatch(t *testing.T) {
	pod := func(labels map[string]string, node string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}, Spec: v1.PodSpec{NodeName: node}}
	}
	tests := map[string]struct {
		from, to *v1.Pod
		want     string
	}{
		"equal":             {pod(nil, "n"), pod(nil, "n"), ""},
		"a value":           {pod(nil, ""), pod(nil, "n"), `{"metadata":{"uid":"u"},"spec":{"nodeName":"n"}}`},
		"a label goes":      {pod(map[string]string{"a": "1"}, ""), pod(nil, ""), `{"metadata":{"labels":null,"uid":"u"}}`},
		"one of two labels": {pod(map[string]string{"a": "1", "b": "2"}, ""), pod(map[string]string{"b": "3"}, ""), `{"metadata":{"labels":{"a":null,"b":"3"},"uid":"u"}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := MergePatch(tt.from, tt.to, map[string]any{"uid": "u"})
			if err != nil || string(got) != tt.want {
				t.Errorf("the patch is %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}
