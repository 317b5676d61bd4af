// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// TestAnnotationsOfPodGroupsAreBounded checks that annotations of PodGroups are bounded. 300 PodGroups with 250 kB
// each used to delay other gangs by 6 to 14 s, and took 200 MB.
func TestAnnotationsOfPodGroupsAreBounded(t *testing.T) {
	const quorum, groups = "volcano.sh/quorum", "gang.scheduling.koordinator.sh/groups"
	many := func(format string) map[string]string {
		annotations := map[string]string{quorum: "3"}
		for i := range 5000 {
			annotations[fmt.Sprintf(format, i)] = "0123456789"
		}
		return annotations
	}
	few := map[string]string{quorum: "3", "example.com/note": "n"}
	tests := map[string]struct {
		has map[string]string
		// want are annotations that must be kept unchanged. cut is the length to which the value of annotation groups
		// is cut.
		want map[string]string
		cut  int
	}{
		"a few":                    {has: few, want: few},
		"a long foreign one":       {has: map[string]string{quorum: "3", "a": "b", "example.com/long": strings.Repeat("x", 250_000)}, want: map[string]string{quorum: "3", "a": "b"}},
		"many foreign ones":        {has: many("example.com/%d"), want: map[string]string{quorum: "3", "example.com/0": "0123456789"}},
		"many with no domain":      {has: many("k%d"), want: map[string]string{quorum: "3", "k0": "0123456789"}},
		"many of a like domain":    {has: many("notvolcano.sh/%d"), want: map[string]string{quorum: "3"}},
		"many of a known domain":   {has: many("a.volcano.sh/%d"), want: map[string]string{"a.volcano.sh/0": "0123456789"}},
		"a long one that is known": {has: map[string]string{quorum: "3", groups: strings.Repeat("x", 250_000)}, want: map[string]string{}, cut: mostKnown - len(groups)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pg := &v1beta1.PodGroup{}
			pg.Annotations = tt.has
			if _, err := Trimmed(pg); err != nil {
				t.Fatal(err)
			}
			size, got := 0, map[string]string{}
			for key, value := range pg.Annotations {
				size += len(key) + len(value)
				if _, wanted := tt.want[key]; wanted {
					got[key] = value
				}
			}
			if size > mostKnown+mostForeign {
				t.Errorf("%d bytes are kept, want at most %d", size, mostKnown+mostForeign)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if cut := len(pg.Annotations[groups]); cut != tt.cut {
				t.Errorf("%s has %d bytes, want %d", groups, cut, tt.cut)
			}
		})
	}
}

// TestAnnotationsFillTheirBounds checks that each byte within the limits is kept, of known annotations and of others
// separately.
func TestAnnotationsFillTheirBounds(t *testing.T) {
	// Keys have 16 bytes, and the numbers below are lengths of values.
	const known1, known2, known3 = "volcano.sh/key-1", "volcano.sh/key-2", "volcano.sh/key-3"
	const other1, other2, other3 = "example.com/k-10", "example.com/k-11", "example.com/k-12"
	const key, all, others = 16, mostKnown, mostForeign
	tests := map[string]struct{ has, want map[string]int }{
		"all at their bounds": {
			map[string]int{known1: 100, known2: all - 100 - 2*key, other1: 100, other2: others - 100 - 2*key},
			map[string]int{known1: 100, known2: all - 100 - 2*key, other1: 100, other2: others - 100 - 2*key},
		},
		"a known byte beyond": {
			map[string]int{known1: 100, known2: all - 100 - 2*key + 1, other1: others - key},
			map[string]int{known1: 100, known2: all - 100 - 2*key, other1: others - key},
		},
		"another byte beyond": {
			map[string]int{known1: all - key, other1: 100, other2: others - 100 - 2*key + 1},
			map[string]int{known1: all - key, other1: 100},
		},
		"room after one that is left out": {
			map[string]int{other1: 100, other2: others, other3: others - 100 - 2*key},
			map[string]int{other1: 100, other3: others - 100 - 2*key},
		},
		"room for a key alone": {
			map[string]int{known1: 100, known2: all - 100 - 3*key, known3: 100},
			map[string]int{known1: 100, known2: all - 100 - 3*key, known3: 0},
		},
		"no room for a key": {
			map[string]int{known1: 100, known2: all - 100 - 3*key + 1, known3: 100},
			map[string]int{known1: 100, known2: all - 100 - 3*key + 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			has, got := map[string]string{}, map[string]int{}
			for key, n := range tt.has {
				has[key] = strings.Repeat("x", n)
			}
			for key, value := range withinAnnotations(has) {
				got[key] = len(value)
			}
			if copies := testing.AllocsPerRun(1, func() { withinAnnotations(has) }) > 0; copies == cmp.Equal(tt.has, tt.want) {
				t.Errorf("annotations are copied: %t", copies)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("lengths of values (-want +got):\n%s", diff)
			}
		})
	}
}
