// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// patience is how long a test waits for an expected event.
const patience = 20 * time.Second

// startWatch watches path, whose first content is known, and returns the reported contents.
func startWatch(t *testing.T, path, first string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	contents := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- Watch(ctx, path, func(data []byte, err error) {
			if err != nil {
				data = []byte("error: " + err.Error())
			}
			contents <- string(data)
		}, WithSeen([]byte(first)))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	return contents
}

// expect waits for the next reported content and compares it.
func expect(t *testing.T, contents <-chan string, want string) {
	t.Helper()
	select {
	case got := <-contents:
		if got != want {
			t.Fatalf("reported %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("%q was not reported", want)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// swap updates a mounted ConfigMap as the kubelet does: with a new folder, and one rename of the link to it.
func swap(t *testing.T, mount, version, content string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(mount, version), 0o700))
	write(t, filepath.Join(mount, version, "scheduler.conf"), content)
	old, _ := os.Readlink(filepath.Join(mount, "..data"))
	must(t, os.Symlink(version, filepath.Join(mount, "..data_tmp")))
	must(t, os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")))
	if old != "" {
		must(t, os.RemoveAll(filepath.Join(mount, old)))
	}
}

func TestWatch(t *testing.T) {
	cases := map[string]struct {
		// change changes the content of the file to next, whatever it was before.
		change func(t *testing.T, path, next string)
	}{
		"written in place": {change: write},
		"renamed over": {change: func(t *testing.T, path, next string) {
			write(t, path+".new", next)
			must(t, os.Rename(path+".new", path))
		}},
		"deleted and made again": {change: func(t *testing.T, path, next string) {
			must(t, os.Remove(path))
			write(t, path, next)
		}},
		"folder replaced": {change: func(t *testing.T, path, next string) {
			must(t, os.RemoveAll(filepath.Dir(path)))
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			write(t, path, next)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "etc", "scheduler.conf")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			write(t, path, "one")
			contents := startWatch(t, path, "one")
			for _, next := range []string{"two", "three"} {
				tc.change(t, path, next)
				expectLast(t, contents, next)
			}
		})
	}
}

// expectLast waits until this content is reported. During a write in place the file may be empty for a moment.
func expectLast(t *testing.T, contents <-chan string, want string) {
	t.Helper()
	for {
		select {
		case got := <-contents:
			if got == want {
				return
			}
			if got != "" {
				t.Fatalf("reported %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%q was not reported", want)
		}
	}
}

func TestWatchConfigMapMount(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	path := filepath.Join(mount, "scheduler.conf")
	swap(t, mount, "..1", "one")
	must(t, os.Symlink(filepath.Join("..data", "scheduler.conf"), path))
	contents := startWatch(t, path, "one")
	for i, next := range []string{"two", "three", "four"} {
		swap(t, mount, []string{"..2", "..3", "..4"}[i], next)
		expect(t, contents, next)
	}
}

func TestWatchFollowsALinkToAnotherFolder(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "real.conf")
	write(t, target, "one")
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	must(t, os.Symlink(target, path))
	contents := startWatch(t, path, "one")
	write(t, target, "two")
	expectLast(t, contents, "two")
}

func TestWatchUnchangedContentIsNoEvent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	write(t, path, "one")
	contents := startWatch(t, path, "one")
	write(t, path+".same", "one")
	must(t, os.Rename(path+".same", path))
	write(t, path+".new", "two")
	must(t, os.Rename(path+".new", path))
	expect(t, contents, "two")
}

func TestWatchSeesAChangeFromBeforeItBegan(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	write(t, path, "two")
	expect(t, startWatch(t, path, "one"), "two")
}

func TestWatchWaitsForAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	contents := startWatch(t, path, "one")
	write(t, path+".new", "two")
	must(t, os.Rename(path+".new", path))
	expect(t, contents, "two")
}
