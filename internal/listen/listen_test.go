// SPDX-License-Identifier: Apache-2.0

package listen

import "testing"

func TestLoopback(t *testing.T) {
	tests := map[string]struct{ address, want string }{
		"no host means loopback":       {":8080", "127.0.0.1:8080"},
		"a named host stays":           {"10.1.2.3:8080", "10.1.2.3:8080"},
		"all of IPv4 can be named":     {"0.0.0.0:8080", "0.0.0.0:8080"},
		"all interfaces can be named":  {"[::]:8080", "[::]:8080"},
		"what is no address stays":     {"nonsense", "nonsense"},
		"no address at all stays none": {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Loopback(tt.address); got != tt.want {
				t.Errorf("Loopback(%q) = %q, want %q", tt.address, got, tt.want)
			}
		})
	}
}
