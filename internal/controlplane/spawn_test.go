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

// orphanEnv makes the test binary a parent process that starts a child and waits to be killed.
const orphanEnv = "CONTROLPLANE_TEST_PARENT"

func TestMain(m *testing.M) {
	if how := os.Getenv(orphanEnv); how != "" {
		parent(how)
	}
	os.Exit(m.Run())
}

// parent starts a child that ignores SIGTERM and SIGINT, prints the child's PID, and ends in the given way or waits
// until the test ends it.
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

// TestNoChildOutlivesItsParent checks that the processes of a control plane do not outlive the program that started
// them, however that program ends.
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

// alive reports whether the process with that stat file runs. A zombie does not count.
func alive(stat string) bool {
	data, err := os.ReadFile(stat)
	return err == nil && !strings.Contains(string(data), ") Z ")
}
