// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// state is the content of the state file. Command up writes the file, and command down reads it.
type state struct {
	PID        int    `json:"pid"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// runningError is returned if a running sandbox has locked the state file.
type runningError struct{ state }

func (e *runningError) Error() string {
	return fmt.Sprintf("a sandbox is already running (process %d); end it with `vc-sandbox down`, or start another with --state-file", e.PID)
}

// stateFile is a state file that this process has locked. The file contains the process id of a sandbox. This sandbox
// runs exactly as long as the file is locked, because the kernel releases the lock when the process ends. So a later
// process with the same id is never mistaken for the sandbox. The file is emptied but never removed: otherwise two
// processes could lock two files with the same name.
type stateFile struct{ file *os.File }

// holdState locks the state file for this process. It returns a runningError if another process has locked the file.
func holdState(path string) (*stateFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := openState(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	held, err := lockState(file)
	if err == nil && held {
		var s state
		if s, err = readState(file); err == nil {
			err = &runningError{s}
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &stateFile{file}, nil
}

// write replaces the content of the state file.
func (f *stateFile) write(s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := f.file.Truncate(0); err != nil {
		return err
	}
	_, err = f.file.WriteAt(append(data, '\n'), 0)
	return err
}

// release empties the state file and unlocks it.
func (f *stateFile) release() error {
	return errors.Join(f.file.Truncate(0), f.file.Close())
}

// openState opens a state file. It does not follow a symbolic link, because another user may have created the link.
func openState(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|syscall.O_NOFOLLOW, 0o600)
}

// lockState locks the file. held reports whether another process holds the lock.
func lockState(file *os.File) (held bool, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return false, nil
}

func readState(file *os.File) (state, error) {
	var s state
	data, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<16))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", file.Name(), err)
	}
	// down sends a signal to the process with this id. A signal to 0 or a negative id would go to a process group.
	if s.PID <= 1 {
		return s, fmt.Errorf("%s names process %d, which is not a sandbox", file.Name(), s.PID)
	}
	return s, nil
}

// defaultStatePath returns a path in a directory that only this user can write to.
func defaultStatePath() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("vc-sandbox-%d", os.Getuid()))
	}
	return filepath.Join(dir, "vc-sandbox", "state.json")
}
