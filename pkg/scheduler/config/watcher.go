// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

const (
	// quiet is how long the file's directory must be without changes before the file is read. So a write in several
	// steps is read once. restless limits this wait if further changes follow.
	quiet    = 50 * time.Millisecond
	restless = 10 * quiet
	// recheck is how often the file is read without a notification of a change. Some file systems send no
	// notifications, and a changed symlink in the middle of the path causes none.
	recheck = 30 * time.Second
	// rearm is the delay before the next attempt if watching a directory or reading the file has failed.
	rearm = time.Second
	// missing is how long a file must be unreadable before an error is reported. A file that was just deleted may be
	// about to be replaced.
	missing = time.Second
)

// WatchOption changes how Watch works.
type WatchOption func(*watch)

// WithSeen gives Watch the content that the caller has read already. Different content counts as a change, even if it
// was written before Watch was called. Without this option, the content at the beginning of Watch counts as read.
func WithSeen(data []byte) WatchOption {
	return func(w *watch) { w.seen, w.seenGiven = hashOf(data), true }
}

// Watch calls onChange with the new content whenever the content of the file changes, until ctx ends. It notices the
// swap of a ConfigMap mount's symlink, a rename over the file and a write in place. A write that leaves the content
// unchanged is no change. If the file was deleted or is no regular file for a while, onChange gets an error, once for
// each reason. When the file can be read again, onChange gets its content, even if the content is unchanged.
//
// onChange is called from the goroutine that calls Watch. Watch returns an error only if it cannot begin.
func Watch(ctx context.Context, path string, onChange func([]byte, error), opts ...WatchOption) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching %s: %w", path, err)
	}
	defer notify.Close()
	w := &watch{path: filepath.Clean(path), notify: notify, onChange: onChange}
	for _, opt := range opts {
		opt(w)
	}
	if !w.seenGiven {
		if data, err := readFile(w.path); err == nil {
			w.seen = hashOf(data)
		}
	}
	w.run(ctx)
	return nil
}

type watch struct {
	path      string
	notify    *fsnotify.Watcher
	onChange  func([]byte, error)
	seen      string
	seenGiven bool
	// missed is when the file became unreadable; zero while the file can be read. reported is the last error that was
	// reported since the file became unreadable.
	missed   time.Time
	reported string
	// bases are the base names of the file, of its link target and of their directories. A notification about one of
	// these names may concern the file.
	bases map[string]bool
}

func (w *watch) run(ctx context.Context) {
	timer := time.NewTimer(w.readFile())
	defer timer.Stop()
	var since time.Time
	wake := func() {
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < restless {
			timer.Reset(quiet)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-w.notify.Events:
			if w.concerns(event.Name) {
				wake()
			}
		case err := <-w.notify.Errors:
			// Notifications may have been lost, so the file itself is read.
			klog.FromContext(ctx).V(2).Info("Lost change notifications of the configuration's directory", "path", w.path, "err", err)
			wake()
		case <-timer.C:
			since = time.Time{}
			timer.Reset(w.readFile())
		}
	}
}

// readFile reads the file and reports a change. It returns when to read the file again if no notification arrives
// before.
func (w *watch) readFile() time.Duration {
	next := recheck
	if !w.arm() {
		next = rearm
	}
	data, err := readFile(w.path)
	if err != nil {
		w.miss(err)
		return rearm
	}
	w.missed, w.reported = time.Time{}, ""
	if hash := hashOf(data); hash != w.seen {
		w.seen = hash
		w.onChange(data, nil)
	}
	return next
}

// miss reports that the file cannot be read, once it has been unreadable for as long as the constant missing says. It
// reports again when the reason changes.
func (w *watch) miss(err error) {
	if w.missed.IsZero() {
		w.missed = time.Now()
	}
	if time.Since(w.missed) < missing || err.Error() == w.reported {
		return
	}
	w.reported = err.Error()
	w.seen = "" // so the next content that can be read counts as changed
	w.onChange(nil, err)
}

// arm watches the directory of the file and the directory of its link target. Watching a directory again costs nothing,
// and is needed if the directory was replaced. arm reports whether both directories are watched.
func (w *watch) arm() bool {
	w.bases = map[string]bool{filepath.Base(w.path): true}
	folders := map[string]bool{filepath.Dir(w.path): true}
	complete := true
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		folders[filepath.Dir(target)] = true
		w.bases[filepath.Base(target)] = true
	} else {
		complete = false
	}
	for folder := range folders {
		w.bases[filepath.Base(folder)] = true
		complete = w.notify.Add(folder) == nil && complete
	}
	for _, folder := range w.notify.WatchList() {
		if !folders[folder] {
			// The directory may no longer exist, so the error of Remove is ignored.
			_ = w.notify.Remove(folder)
		}
	}
	return complete
}

// concerns reports whether a notification for the file name may be about the configuration file. A ConfigMap mount is
// updated by swapping names that begin with two dots, so these names also count.
func (w *watch) concerns(name string) bool {
	base := filepath.Base(name)
	return w.bases[base] || strings.HasPrefix(base, "..")
}
