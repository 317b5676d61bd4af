// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestCrashOf(t *testing.T) {
	tests := map[string]struct{ log, want string }{
		"an end that was asked for":     {log: "I1121 draining\nI1121 done\n"},
		"a panic that was recovered":    {log: "E1121 chain.go:127] \"Plugin panicked\" err=\"panic: told to fail\"\nI1121 done\n"},
		"a panic that ended it":         {log: "I1121 x\npanic: oh no\n\ngoroutine 1\n", want: "panic: oh no\n\ngoroutine 1\n"},
		"an error of the runtime":       {log: "fatal error: concurrent map writes\n", want: "fatal error: concurrent map writes\n"},
		"a line that speaks of a panic": {log: "the panic: it was one\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := crashOf(tt.log); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
