// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestParsePlan(t *testing.T) {
	tests := map[string]struct {
		args  []string
		rows  string
		joint bool
		err   string
	}{
		"all by default":              {nil, "gang5000 gang5000x8 shares1250 sharesleast sharesmost ibdevices", true, ""},
		"chosen rows, in their order": {[]string{"--rows", "ibdevices, gang5000"}, "ibdevices gang5000", false, ""},
		"joint requests alone":        {[]string{"--rows", "joint5000"}, "", true, ""},
		"an unknown row":              {[]string{"--rows", "gang"}, "", false, `"gang" is none of joint5000, `},
		"no runs":                     {[]string{"--runs", "0"}, "", false, "1 or more, not 0"},
		"an argument beyond flags":    {[]string{"gang5000"}, "", false, "unexpected arguments"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := parsePlan(tt.args, &strings.Builder{})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range p.rows {
				names = append(names, r.name)
			}
			if got := strings.Join(names, " "); got != tt.rows || p.joint != tt.joint {
				t.Errorf("rows %q, joint %t; want %q, %t", got, p.joint, tt.rows, tt.joint)
			}
		})
	}
}
