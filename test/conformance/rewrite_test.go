// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRewrite(t *testing.T) {
	const head = "package preempt\n"
	const adapted = "package preempt\n\nimport \"" + adapterPackage + "\"\n\n"
	cases := map[string]struct{ src, want string }{
		"a file that opens no session stays as it is": {
			src:  head + "func TestSum(t *testing.T) { for range 2 { sum() } }\n",
			want: head + "func TestSum(t *testing.T) { for range 2 { sum() } }\n",
		},
		"the helper is the copy beside the tables": {
			src:  head + `import "` + helperPackage + "\"\n",
			want: head + `import "` + tableModule + "/uthelper\"\n",
		},
		"sessions are opened and closed by the adapter": {
			src:  head + "func open() { defer framework.CloseSession(framework.OpenSession(c, nil, nil)) }\n",
			want: adapted + "func open() { defer adapter.CloseSession(adapter.OpenSession(c, nil, nil)) }\nvar _ framework.Plugin\n\n",
		},
		"an action is executed by the adapter": {
			src:  head + "func act() { actions[0].Execute(test.ssn) }\n",
			want: adapted + "func act() { adapter.Execute(actions[0], test.ssn) }\n",
		},
		"a cache is started by the adapter": {
			src:  head + "func start() { schedulerCache.Run(test.stop) }\n",
			want: adapted + "func start() { adapter.Run(schedulerCache, test.stop) }\n",
		},
		"transactions are sealed where the helper has run the actions": {
			src:  "package uthelper\nfunc (test *T) Run(action A) {\n\taction.Execute(test.ssn)\n}\n",
			want: strings.ReplaceAll(adapted, "preempt", "uthelper") + "func (test *T) Run(action A) {\n\tadapter.Execute(action, test.ssn)\n\tadapter.Seal(test.ssn)\n}\n",
		},
		"cases of a loop get names of their own, and a case that is left out ends": {
			src: head + "func TestLoop(t *testing.T) {\n\tfor _, c := range cases {\n\t\tif c.old { continue }\n\t\tc.RegisterSession(nil)\n\t\tfor { continue }\n\t}\n}\n",
			want: head + "\nimport conformancefmt \"fmt\"\n\nfunc TestLoop(t *testing.T) {\n\tconformanceCase1 := -1\nfor _, c := range cases {\n" +
				"conformanceCase1++\nt.Run(conformancefmt.Sprintf(\"case %d\", conformanceCase1), func(t *testing.T) {\n\t\tif c.old { return }\n\t\tc.RegisterSession(nil)\n" +
				"\t\tfor { continue }\n\t})\n}\n}\n",
		},
		"a loop that names its cases keeps its names": {
			src:  head + "func TestLoop(t *testing.T) { for range cases { t.Run(\"\", func(t *testing.T) { c.RegisterSession(nil) }) } }\n",
			want: head + "func TestLoop(t *testing.T) { for range cases { t.Run(\"\", func(t *testing.T) { c.RegisterSession(nil) }) } }\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := rewrite("x_test.go", []byte(tc.src))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("rewrite (-want +got):\n%s", diff)
			}
		})
	}
}
