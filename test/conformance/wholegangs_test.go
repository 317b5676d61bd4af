// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestWholeGangsAreSwitchedOn(t *testing.T) {
	for name, c := range map[string]struct{ conf, want string }{
		"empty": {"", `
configurations:
- {name: preempt, arguments: {wholeGangs: true}}
- {name: reclaim, arguments: {wholeGangs: true}}`},
		"no blocks": {"actions: allocate", `
actions: allocate
configurations:
- {name: preempt, arguments: {wholeGangs: true}}
- {name: reclaim, arguments: {wholeGangs: true}}`},
		"a block of the action with arguments and one of another action": {`
configurations:
- {name: enqueue, arguments: {overcommit-factor: 1.0}}
- {name: preempt, arguments: {enableTopologyAwarePreemption: "true"}}
- {name: reclaim}`, `
configurations:
- {name: enqueue, arguments: {overcommit-factor: 1.0}}
- {name: preempt, arguments: {enableTopologyAwarePreemption: "true", wholeGangs: true}}
- {name: reclaim, arguments: {wholeGangs: true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			changed, err := withWholeGangs(c.conf)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := yaml.Unmarshal([]byte(changed), &got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := withWholeGangs("actions: ["); err == nil || !strings.Contains(err.Error(), "reading a scheduler's configuration") {
		t.Errorf("error %v of an invalid configuration", err)
	}
}
