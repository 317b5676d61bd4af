// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{
		0: 400, 1 * mib: 400, 64 * mib: 400, 128 * mib: 200, 256 * mib: 100, 640 * mib: 40, 854 * mib: 30, 4000 * mib: 30, 1 << 62: 30,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d percent for %d live bytes, want %d", got, live, want)
		}
	}
}

// TestBound runs itself as another process, because Bound has effect for the whole life of a process. The process prints the
// percentage after some collections.
func TestBound(t *testing.T) {
	if live := os.Getenv("GARBAGE_TEST_LIVE"); live != "" {
		size, err := strconv.Atoi(live)
		if err != nil {
			t.Fatal(err)
		}
		Bound()
		held := make([]byte, size)
		want, got := percentFor(uint64(size)), 0
		if gogc := os.Getenv("GOGC"); gogc != "" {
			want, _ = strconv.Atoi(gogc)
		}
		// The live heap is a little larger than what is held.
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && (got > want || got < want-5); {
			runtime.GC()
			got = debug.SetGCPercent(100)
			debug.SetGCPercent(got)
			runtime.Gosched()
		}
		runtime.KeepAlive(held)
		if got > want || got < want-5 {
			t.Errorf("the percentage is %d, want %d", got, want)
		}
		return
	}
	for name, env := range map[string][]string{
		"a small heap":          {"GOGC=", "GARBAGE_TEST_LIVE=" + strconv.Itoa(128<<20)},
		"a large heap":          {"GOGC=", "GARBAGE_TEST_LIVE=" + strconv.Itoa(1<<30)},
		"GOGC takes precedence": {"GOGC=77", "GARBAGE_TEST_LIVE=" + strconv.Itoa(128<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestBound$", "-test.v")
			cmd.Env = append(os.Environ(), env...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
