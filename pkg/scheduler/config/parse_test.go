// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// homemade is a plugin that takes any argument.
var homemade = framework.PluginSpec{Name: "homemade", Arguments: []framework.Argument{{Name: "*", Type: framework.AnyType}}}

// testCatalogue has upstream's plugins, one of this project, and the given ones.
func testCatalogue(others ...framework.PluginSpec) *Catalogue {
	return NewCatalogue(append(others, framework.PluginSpec{
		Name: "checked",
		Arguments: []framework.Argument{
			{Name: "checked.level", Type: framework.Int},
			{Name: "checked.mode", Type: framework.String, Enum: []string{"hard", "soft"}},
			{Name: "checked.ratio", Type: framework.Number},
			{Name: "checked.wait", Type: framework.Duration},
			{Name: "checked.names", Type: framework.Strings},
			{Name: "checked.rules", Type: framework.Object},
			{Name: "checked.any", Type: framework.AnyType},
		},
		Load: func(args framework.Arguments) (framework.Builder, error) {
			switch args["checked.level"] {
			case 7:
				panic("seven")
			case 8:
				return nil, errors.Join(errors.New("level 8 is too high"), errors.New("and 9 is higher"))
			default:
				return nil, nil
			}
		},
	})...)
}

// plugin returns a configuration with one plugin. Its name is on line 4, and the text below it begins on line 5.
func plugin(name, below string) string {
	text := "actions: allocate\ntiers:\n- plugins:\n  - name: " + name + "\n"
	for line := range strings.Lines(below) {
		text += "    " + line
	}
	return text
}

// with returns a configuration with one plugin with arguments, which begin on line 6.
func with(name string, arguments ...string) string {
	return plugin(name, "arguments:\n  "+strings.Join(arguments, "\n  ")+"\n")
}

// TestUnknownConfIgnored checks that unknown names in a configuration are errors with the line and the right
// spelling. Upstream ignores a misspelt argument silently and schedules with the default. It only logs a misspelt
// action or plugin, or exits (volcano#4660, #5749).
func TestUnknownConfIgnored(t *testing.T) {
	conf := `actions: "enqueue, alloacte"
tiers:
- plugins:
  - name: ganng
  - name: nodeorder
    enableNodeOrdr: true
    arguments:
      leastrequest.weight: 5
`
	_, err := Parse([]byte(conf), NewCatalogue())
	want := `line 1: action "alloacte" is unknown; did you mean "allocate"?
line 4: plugin "ganng" is unknown; did you mean "gang"?
line 6: key "enableNodeOrdr" of plugin "nodeorder" is unknown; did you mean "enableNodeOrder"?
line 8: argument "leastrequest.weight" of plugin "nodeorder" is unknown; did you mean "leastrequested.weight"?`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("Parse error (-want +got):\n%s", diff)
	}
	var finding *Error
	if !errors.As(err, &finding) || finding.Line != 1 {
		t.Errorf("the error does not give its findings: %#v", err)
	}
}

// TestPeriodsOfASecond checks that a second is the shortest accepted period.
func TestPeriodsOfASecond(t *testing.T) {
	conf := plugin("gang", "") + "configurations:\n- name: binding\n  arguments: {evictPartiallyBoundAfter: 1s}\n" +
		"metrics:\n  type: prometheus\n  address: http://x\n  interval: 1s\n"
	if _, err := Parse([]byte(conf), NewCatalogue()); err != nil {
		t.Error(err)
	}
}

// TestFindingsAreShort checks that findings are short. They repeat names from the file and are logged at each reload,
// and a name may be as large as the file.
func TestFindingsAreShort(t *testing.T) {
	long := strings.Repeat("n", 900_000)
	for name, conf := range map[string]string{
		"a name": plugin(long, ""), "a value": plugin("gang", "enablePreBind: "+long+"\n"), "what is no YAML": "actions: [" + long + ", *" + long + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(conf), NewCatalogue())
			if err == nil {
				t.Fatal("it is taken")
			}
			if text := (&FileError{Path: "f", Err: err}).Error(); len(text) > 1100 || !strings.HasPrefix(text, "f: line ") {
				t.Errorf("the report has %d bytes: %.200s", len(text), text)
			}
		})
	}
}

func TestNeverIsATime(t *testing.T) {
	cfg, err := Parse([]byte(plugin("gang", "")+"configurations:\n- name: binding\n  arguments: {evictPartiallyBoundAfter: never}\n"), testCatalogue())
	if err != nil {
		t.Fatal(err)
	}
	if after := cfg.EvictPartiallyBoundAfter; after != 0 {
		t.Errorf("partially bound gangs are evicted after %s, want never", after)
	}
}

// TestParseReportsTheFirstFindings checks that the report on a file of 1 MiB in which every line is wrong is limited
// to the first findings.
func TestParseReportsTheFirstFindings(t *testing.T) {
	var conf strings.Builder
	conf.WriteString("actions: allocate\ntiers:\n- plugins:\n")
	for i := range 2_000 {
		fmt.Fprintf(&conf, "  - name: bogus%d\n", i)
	}
	_, err := Parse([]byte(conf.String()), testCatalogue())
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != maxFindings+1 {
		t.Fatalf("%d lines, want %d", len(lines), maxFindings+1)
	}
	if want := `line 4: plugin "bogus0" is unknown`; !strings.HasPrefix(lines[0], want) {
		t.Errorf("the first line is %s, want %s", lines[0], want)
	}
	if want := fmt.Sprintf("line %d: and %d more errors from here on", maxFindings+4, 2_000-maxFindings); lines[maxFindings] != want {
		t.Errorf("the last line is %s, want %s", lines[maxFindings], want)
	}
}
