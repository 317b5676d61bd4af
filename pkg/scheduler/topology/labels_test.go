// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node returns the node for "name cluster spine leaf". A dash stands for a missing label, as do missing words at the
// end.
func node(text string) *v1.Node {
	fields := strings.Fields(text)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fields[0], Labels: map[string]string{}}}
	for i, value := range fields[1:] {
		if value != "-" {
			n.Labels[[]string{"ibcluster", "spine", "leaf"}[i]] = value
		}
	}
	return n
}

func nodes(texts ...string) []*v1.Node {
	var list []*v1.Node
	for _, text := range texts {
		list = append(list, node(text))
	}
	return list
}

func TestForestOfLabels(t *testing.T) {
	empty := node("n1 a s1")
	empty.Labels["leaf"] = ""
	tests := map[string]struct {
		nodes []*v1.Node
		want  []string
	}{
		"no nodes": {},
		"three levels": {
			nodes: nodes("n4 b s1 l1", "n2 a s1 l2", "n1 a s1 l1", "n3 a s2 l3"),
			want: []string{
				"a: n1 n2 n3 [s1 s2]", "b: n4 [s1]",
				"a/s1: n1 n2 [l1 l2]", "a/s2: n3 [l3]", "b/s1: n4 [l1]",
				"a/s1/l1: n1", "a/s1/l2: n2", "a/s2/l3: n3", "b/s1/l1: n4",
			},
		},
		"children are in the order of their names, not of their nodes'": {
			nodes: nodes("n1 a s3", "n2 a s1", "n3 a s2"), want: []string{"a: n1 n2 n3 [s1 s2 s3]", "a/s1: n2", "a/s2: n3", "a/s3: n1"},
		},
		"a node without the widest label is in no group":             {nodes: nodes("n1 - s1 l1", "n2 a"), want: []string{"a: n2"}},
		"a node without a narrower label is in the wider group only": {nodes: nodes("n1 a s1", "n2 a"), want: []string{"a: n1 n2 [s1]", "a/s1: n1"}},
		"a label behind one that is missing does not count":          {nodes: nodes("n1 a - l1"), want: []string{"a: n1"}},
		"an empty value is no name":                                  {nodes: []*v1.Node{empty}, want: []string{"a: n1 [s1]", "a/s1: n1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := NewLabels("ibcluster", "spine", "leaf").Forest(tt.nodes)
			if diff := cmp.Diff(tt.want, drawn(f)); diff != "" {
				t.Errorf("forest (-want +got):\n%s", diff)
			}
			if problems := f.Problems(); len(problems) > 0 {
				t.Errorf("labels cannot be at odds, found %v", problems)
			}
		})
	}
}

// TestForestIsKept checks that the forest is reused as long as the nodes, their order and their values of the given
// labels are unchanged.
func TestForestIsKept(t *testing.T) {
	heartbeat := node("n2 a s1 l2")
	heartbeat.ResourceVersion, heartbeat.Labels["other"] = "2", "x"
	tests := map[string]struct {
		next []*v1.Node
		kept bool
	}{
		"equal nodes":                       {next: nodes("n1 a s1 l1", "n2 a s1 l2"), kept: true},
		"a change of something else":        {next: []*v1.Node{node("n1 a s1 l1"), heartbeat}, kept: true},
		"a label changed":                   {next: nodes("n1 a s1 l1", "n2 a s1 l1")},
		"a label gone":                      {next: nodes("n1 a s1 l1", "n2 a s1")},
		"a node gone":                       {next: nodes("n1 a s1 l1")},
		"a node more":                       {next: nodes("n1 a s1 l1", "n2 a s1 l2", "n3 a s1 l2")},
		"a node in the place of another":    {next: nodes("n1 a s1 l1", "n3 a s1 l2")},
		"a node in another's place in line": {next: nodes("n2 a s1 l2", "n1 a s1 l1")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			labels := NewLabels("ibcluster", "spine", "leaf")
			first := labels.Forest(nodes("n1 a s1 l1", "n2 a s1 l2"))
			second := labels.Forest(tt.next)
			if kept := second == first; kept != tt.kept {
				t.Errorf("kept: %t, want %t", kept, tt.kept)
			}
			if diff := cmp.Diff(drawn(NewLabels("ibcluster", "spine", "leaf").Forest(tt.next)), drawn(second)); diff != "" {
				t.Errorf("compared with a new one (-new +reused):\n%s", diff)
			}
		})
	}
}

// TestChangeIsSeenOnce checks that nodes are compared with the nodes of the last call, not with the nodes of the first.
func TestChangeIsSeenOnce(t *testing.T) {
	labels := NewLabels("ibcluster")
	labels.Forest(nodes("n1 a"))
	changed := labels.Forest(nodes("n1 b"))
	if again := labels.Forest(nodes("n1 b")); again != changed {
		t.Error("the forest was read again though nothing changed after the change")
	}
	if back := labels.Forest(nodes("n1 a")); back == changed || back.Find("a") == nil {
		t.Error("the change back was not seen")
	}
}

func BenchmarkLabels(b *testing.B) {
	var list []*v1.Node
	for i := range 10000 {
		list = append(list, node(fmt.Sprintf("n%d ib-%d s%d l%d", i, i/250, i/64, i/16)))
	}
	b.Run("unchanged", func(b *testing.B) {
		labels := NewLabels("ibcluster", "spine", "leaf")
		for b.Loop() {
			labels.Forest(list)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			NewLabels("ibcluster", "spine", "leaf").Forest(list)
		}
	})
}
