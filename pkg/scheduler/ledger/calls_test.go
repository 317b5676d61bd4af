// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"testing/synctest"
)

// TestCallsThatHangDelayTheirNamespaceAlone checks how many calls run at once, and that calls that hang delay none of
// another namespace.
func TestCallsThatHangDelayTheirNamespaceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		hanging, ends := make(chan struct{}), make(chan string, 1000)
		for range 3 * callsPerNamespace {
			c.run("a", func() { ends <- "a begins"; <-hanging; ends <- "a" })
		}
		c.run("b", func() { ends <- "b" })
		synctest.Wait()
		if got := count(ends); got["a begins"] != callsPerNamespace || got["b"] != 1 {
			t.Errorf("while calls hang: %v, want %d calls of a that began, and the call of b", got, callsPerNamespace)
		}
		close(hanging)
		synctest.Wait()
		if got := count(ends); got["a"] != 3*callsPerNamespace || len(c.namespaces) > 0 {
			t.Errorf("in the end: %v, and %d namespaces are kept; want %d calls of a, and none", got, len(c.namespaces), 3*callsPerNamespace)
		}
	})
}

func count(of chan string) map[string]int {
	n := map[string]int{}
	for len(of) > 0 {
		n[<-of]++
	}
	return n
}
