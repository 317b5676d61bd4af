// SPDX-License-Identifier: Apache-2.0

package nodelease

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExcerptsInTheDocumentation checks that the excerpts in docs/prebind.md are identical to the code of the
// examples.
func TestExcerptsInTheDocumentation(t *testing.T) {
	var source strings.Builder
	for _, file := range []string{"plugin.go", "claims.go", "../powerup/spec.go", "../ported/plugin.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	page, err := os.ReadFile("../../prebind.md")
	if err != nil {
		t.Fatal(err)
	}
	excerpts := 0
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "package main") {
			continue
		}
		excerpts++
		if !strings.Contains(source.String(), block[1]) {
			t.Errorf("not in the source:\n%s", block[1])
		}
	}
	if excerpts < 6 {
		t.Errorf("%d excerpts are in the documentation, want at least 6", excerpts)
	}
}
