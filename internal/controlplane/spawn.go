// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// spawner has one goroutine that starts all child processes, locked to its thread. The kernel sends a parent death
// signal when the thread that started the child ends, even if its process continues. This thread ends only with its
// process, so children get the signal only then.
var spawner = struct {
	sync.Once
	requests chan spawnRequest
}{requests: make(chan spawnRequest)}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// spawn starts the command in its own process group, so that Ctrl-C in a terminal interrupts only this process. The
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
