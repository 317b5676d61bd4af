// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drawn returns the forest's groups level by level, each as "path: nodes [children]".
func drawn(f *Forest) []string {
	var lines []string
	for level := range f.Levels() {
		for _, g := range f.At(level) {
			line := g.Path() + ": " + strings.Join(g.Nodes, " ")
			if len(g.Children) > 0 {
				var names []string
				for _, child := range g.Children {
					names = append(names, child.Name)
				}
				line += fmt.Sprint(" ", names)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func TestLookUps(t *testing.T) {
	f := NewLabels("ibcluster", "spine", "leaf").Forest(nodes("n1 a s1 l1", "n2 a s1", "n3"))
	path := func(g *Group) string {
		if g == nil {
			return "-"
		}
		return g.Path()
	}
	tests := map[string]struct {
		got  *Group
		want string
	}{
		"the narrowest of a node":             {f.Narrowest("n1"), "a/s1/l1"},
		"of a node without the last label":    {f.Narrowest("n2"), "a/s1"},
		"of a node without labels":            {f.Narrowest("n3"), "-"},
		"of a node that does not exist":       {f.Narrowest("n4"), "-"},
		"at the widest level":                 {f.Of("n1", 0), "a"},
		"at a middle level":                   {f.Of("n1", 1), "a/s1"},
		"at a level the node does not name":   {f.Of("n2", 2), "-"},
		"at a level, of a node in no group":   {f.Of("n3", 0), "-"},
		"by path":                             {f.Find("a/s1/l1"), "a/s1/l1"},
		"by a path that does not exist":       {f.Find("l1"), "-"},
		"around a group":                      {f.Find("a/s1/l1").At(1), "a/s1"},
		"a group around itself":               {f.Find("a/s1").At(1), "a/s1"},
		"around a group, at a narrower level": {f.Find("a/s1").At(2), "-"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := path(tt.got); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	for _, level := range []int{-1, 3} {
		if got := f.At(level); got != nil {
			t.Errorf("groups at level %d, which does not exist: %v", level, got)
		}
	}
}

func TestLevelNames(t *testing.T) {
	tests := map[string]struct {
		keys []string
		name string
		want int // -1 for none
	}{
		"a key":                            {keys: []string{"example.com/core", "example.com/leaf"}, name: "example.com/leaf", want: 1},
		"the part behind the slash":        {keys: []string{"example.com/core", "example.com/leaf"}, name: "core", want: 0},
		"a key without a slash":            {keys: []string{"ibcluster", "leaf"}, name: "leaf", want: 1},
		"a short name that two keys share": {keys: []string{"a.com/switch", "b.com/switch"}, name: "switch", want: -1},
		"a key comes before a short name":  {keys: []string{"example.com/leaf", "leaf"}, name: "leaf", want: 1},
		"no level":                         {keys: []string{"ibcluster"}, name: "rack", want: -1},
		"nothing":                          {keys: []string{"ibcluster"}, name: "", want: -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			level, ok := NewLabels(tt.keys...).Forest(nil).Level(tt.name)
			if !ok {
				level = -1
			}
			if diff := cmp.Diff(tt.want, level); diff != "" {
				t.Errorf("level (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPresets checks that no two presets have the same label keys, and that PresetKeys finds each preset.
func TestPresets(t *testing.T) {
	seen := map[string]string{}
	for _, preset := range Presets() {
		keys := strings.Join(preset.Keys, " ")
		if other, twice := seen[keys]; twice {
			t.Errorf("presets %s and %s have the same keys", preset.Name, other)
		}
		seen[keys] = preset.Name
		if diff := cmp.Diff(preset.Keys, PresetKeys(preset.Name)); diff != "" {
			t.Errorf("keys of preset %s (-want +got):\n%s", preset.Name, diff)
		}
	}
	if keys := PresetKeys("nobody's"); keys != nil {
		t.Errorf("an unknown preset has the keys %v", keys)
	}
}
