// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// checkError checks that the error contains all parts, or that there is no error if no parts are given.
func checkError(t *testing.T, err error, parts []string) {
	t.Helper()
	if len(parts) == 0 {
		if err != nil {
			t.Errorf("got error %v, want none", err)
		}
		return
	}
	if err == nil {
		t.Errorf("got no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}
