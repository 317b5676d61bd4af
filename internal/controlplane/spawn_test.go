// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// orphanEnv makes the test binary a parent that waits to be killed, with a child of its own.
const orphanEnv = "CONTROLPLANE_TEST_PARENT"

func TestMain(m *testing.M) {
	if how := os.Getenv(orphanEnv); how != "" {
		parent(how)
	}
	os.Exit(m.Run())
}

// parent starts a child that ignores the polite signals, tells its PID, and ends in the way named or waits for
// the test to end it.
func parent(how string) {
	p, err := startProcess("child", os.DevNull, "/bin/sh", []string{"-c", "trap '' TERM INT HUP; exec sleep 600"}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.PID())
	if how == "panic" {
		panic("on purpose")
	}
	select {}
}

// The processes of a control plane must not outlive the program that started them, however that one ends.
func TestNoChildOutlivesItsParent(t *testing.T) {
	tests := map[string]struct {
		how string
		end func(*os.Process) error
	}{
		"killed with SIGKILL": {how: "wait", end: (*os.Process).Kill},
		"Ctrl-C":              {how: "wait", end: func(p *os.Process) error { return p.Signal(os.Interrupt) }},
		"panic":               {how: "panic", end: func(*os.Process) error { return nil }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), orphanEnv+"="+tt.how)
			out, err := cmd.StdoutPipe()
			do(t, err, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			do(t, err)
			do(t, tt.end(cmd.Process))
			if err := cmd.Wait(); err == nil {
				t.Error("the parent ended well")
			}
			status := filepath.Join("/proc", strings.TrimSpace(line), "stat")
			eventually(t, func(context.Context) error {
				if alive(status) {
					return fmt.Errorf("child %s is alive after its parent ended", strings.TrimSpace(line))
				}
				return nil
			})
		})
	}
}

// alive tells whether the process with that stat file runs; one that only waits to be reaped does not.
func alive(stat string) bool {
	data, err := os.ReadFile(stat)
	return err == nil && !strings.Contains(string(data), ") Z ")
}
