// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDownEndsTheSandbox checks the life of a sandbox: it holds the file, a second sandbox is refused, down stops the
// first one and waits for its end, and then the file is free again.
func TestDownEndsTheSandbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "state.json")
	held, err := holdState(path)
	if err != nil {
		t.Fatal(err)
	}
	running := state{PID: 4711, Kubeconfig: "/somewhere/kubeconfig"}
	if err := held.write(state{PID: 4711000, Kubeconfig: "/a/text/longer/than/what/follows"}); err != nil {
		t.Fatal(err)
	}
	if err := held.write(running); err != nil {
		t.Fatal(err)
	}

	_, err = holdState(path)
	var already *runningError
	if !errors.As(err, &already) {
		t.Fatalf("holding a held file: got %v, want a runningError", err)
	}
	if diff := cmp.Diff(running, already.state); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}

	var out strings.Builder
	err = down(t.Context(), path, func(pid int) error {
		if pid != running.PID {
			t.Errorf("process %d was ended, want %d", pid, running.PID)
		}
		return held.release()
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if want := "The sandbox (process 4711) has ended.\n"; out.String() != want {
		t.Errorf("the message of down is %q, want %q", out.String(), want)
	}

	if held, err = holdState(path); err != nil {
		t.Fatalf("the file is not free again: %v", err)
	}
	if err := held.release(); err != nil {
		t.Error(err)
	}
}

// TestDownSignalsNoProcessWithoutASandbox checks that down signals no process if the sandbox was killed. The process
// id in its file may belong to another process.
func TestDownSignalsNoProcessWithoutASandbox(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left.json")
	if err := os.WriteFile(left, []byte(`{"pid":4711}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"never": filepath.Join(t.TempDir(), "none.json"), "killed": left} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := down(t.Context(), path, func(pid int) error {
				t.Errorf("process %d was signalled", pid)
				return nil
			}, &out)
			if err != nil {
				t.Fatal(err)
			}
			if want := "No sandbox is running.\n"; out.String() != want {
				t.Errorf("the message of down is %q, want %q", out.String(), want)
			}
		})
	}
}

func TestDownGivesUp(t *testing.T) {
	stubborn := errors.New("test: given up")
	cases := map[string]struct {
		written   string
		terminate func(cancel context.CancelCauseFunc) error
		want      []string
	}{
		"it does not end": {
			written:   `{"pid":4711}`,
			terminate: func(cancel context.CancelCauseFunc) error { cancel(stubborn); return nil },
			want:      []string{"process 4711 has not ended after SIGTERM"},
		},
		"it may not be signalled": {
			written:   `{"pid":4711}`,
			terminate: func(context.CancelCauseFunc) error { return os.ErrPermission },
			want:      []string{"ending process 4711", "permission denied"},
		},
		"the file is damaged":         {written: `{"pid":`, want: []string{"state.json"}},
		"the id is a process group's": {written: `{"pid":-1}`, want: []string{"process -1", "not a sandbox"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			held, err := holdState(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = held.release() })
			if err := os.WriteFile(path, []byte(tc.written), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			err = down(ctx, path, func(int) error {
				if tc.terminate == nil {
					t.Error("a process was signalled")
					return nil
				}
				return tc.terminate(cancel)
			}, &strings.Builder{})
			checkError(t, err, tc.want)
		})
	}
}

func TestStateFileIsNoLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	write(t, target)
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, err := holdState(link); err == nil {
		t.Error("a link was followed")
	}
}
