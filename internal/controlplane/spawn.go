// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// The kernel sends a parent death signal when the thread that started the child ends, even if its process goes on. So one
// goroutine starts all children; it is locked to its thread and never returns. The signal is then sent when this process
// ends, for whatever reason.
var spawner = struct {
	sync.Once
	requests chan spawnRequest
}{requests: make(chan spawnRequest)}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// spawn starts the command in its own process group, so that a Ctrl-C in a terminal reaches only this process. The
// command gets SIGKILL when this process ends.
func spawn(cmd *exec.Cmd) error {
	spawner.Do(func() {
		go func() {
			runtime.LockOSThread()
			for r := range spawner.requests {
				r.done <- r.cmd.Start()
			}
		}()
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r := spawnRequest{cmd: cmd, done: make(chan error, 1)}
	spawner.requests <- r
	return <-r.done
}
