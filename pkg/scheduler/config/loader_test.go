// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	goodConf  = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"
	otherConf = "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n"
	badConf   = "actions: alocate\ntiers:\n- plugins:\n  - name: gagn\n"
)

func TestLoad(t *testing.T) {
	const gone = "\x00"
	cases := map[string]struct {
		noPath, disableDefault bool
		content                string
		want                   []string
		wantErr                string
	}{
		"a file":               {content: goodConf, want: []string{"gang"}},
		"an empty file":        {content: "", want: defaultOrder()},
		"no file given":        {noPath: true, want: defaultOrder()},
		"an empty file alone":  {content: "", disableDefault: true, wantErr: "PATH: the file is empty, and the built-in configuration is disabled (--disable-default-scheduler-config)"},
		"no file given, alone": {noPath: true, disableDefault: true, wantErr: "no configuration is given (--scheduler-conf), and the built-in one is disabled (--disable-default-scheduler-config)"},
		"a file that is gone":  {content: gone, wantErr: "open PATH: no such file or directory"},
		"a bad file":           {content: badConf, wantErr: "PATH: line 1: action \"alocate\" is unknown; did you mean \"allocate\"?\nPATH: line 4: plugin \"gagn\" is unknown; did you mean \"gang\"?"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "scheduler.conf")
			if tc.content != gone {
				write(t, path, tc.content)
			}
			if tc.noPath {
				path = ""
			}
			loader := NewLoader(path, NewCatalogue(), tc.disableDefault)
			cfg, err := loader.Load()
			if got := withoutPath(err, path); got != tc.wantErr {
				t.Errorf("Load error:\n%s\nwant:\n%s", got, tc.wantErr)
			}
			if err != nil {
				if loader.Current() != nil {
					t.Error("a configuration is in force after an error")
				}
				return
			}
			if diff := cmp.Diff(tc.want, cfg.PluginOrder()); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			if loader.Current() != cfg {
				t.Error("the loaded configuration is not in use")
			}
		})
	}
}

func defaultOrder() []string {
	return []string{"priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder"}
}

// withoutPath returns the error's text with PATH in place of the path, or "" for no error.
func withoutPath(err error, path string) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if path == "" {
		return text
	}
	return strings.ReplaceAll(text, path, "PATH")
}

// attempt is one report of Loader.Watch.
type attempt struct {
	cfg *Config
	err error
}

func startLoader(t *testing.T, loader *Loader) <-chan attempt {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	attempts := make(chan attempt, 100)
	done := make(chan error, 1)
	go func() {
		done <- loader.Watch(ctx, func(cfg *Config, err error) { attempts <- attempt{cfg, err} })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	return attempts
}

func next(t *testing.T, attempts <-chan attempt) attempt {
	t.Helper()
	select {
	case a := <-attempts:
		return a
	case <-time.After(patience):
		t.Fatal("nothing was reported")
		return attempt{}
	}
}

// replace changes a file in one step.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".new", content)
	must(t, os.Rename(path+".new", path))
}

func TestReloadKeepsTheGoodConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	write(t, path, goodConf)
	loader := NewLoader(path, NewCatalogue(), false)
	good, err := loader.Load()
	must(t, err)
	attempts := startLoader(t, loader)

	replace(t, path, badConf)
	a := next(t, attempts)
	var file *FileError
	if a.cfg != nil || !errors.As(a.err, &file) || file.Path != path {
		t.Fatalf("a bad file was reported as %v, %v", a.cfg, a.err)
	}
	if loader.Current() != good {
		t.Fatal("a bad file replaced the configuration in force")
	}

	replace(t, path, "")
	if a := next(t, attempts); a.err == nil {
		t.Fatal("an emptied file was taken")
	}
	if loader.Current() != good {
		t.Fatal("an emptied file replaced the configuration in force")
	}

	replace(t, path, otherConf)
	if a := next(t, attempts); a.err != nil || a.cfg != loader.Current() {
		t.Fatalf("a good file was reported as %v, %v", a.cfg, a.err)
	}
	if diff := cmp.Diff([]string{"drf"}, loader.Current().PluginOrder()); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestReloadAsksForAcceptance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	write(t, path, goodConf)
	accept := func(cfg *Config) error {
		if cfg.PluginOrder()[0] == "drf" {
			return errors.New("building plugin \"drf\": no")
		}
		return nil
	}
	loader := NewLoader(path, NewCatalogue(), false, WithAccept(accept))
	good, err := loader.Load()
	must(t, err)
	attempts := startLoader(t, loader)
	replace(t, path, otherConf)
	if got, want := fmt.Sprint(next(t, attempts).err), path+`: building plugin "drf": no`; got != want {
		t.Errorf("reported %q, want %q", got, want)
	}
	if loader.Current() != good {
		t.Error("the rejected configuration is in use")
	}
}

// TestReloadReportsAnUnreadableFile checks that a reload reports an unreadable file. The former configuration stays
// in use, the error is reported once, and the file is loaded when it is readable again.
func TestReloadReportsAnUnreadableFile(t *testing.T) {
	tests := map[string]struct {
		spoil func(t *testing.T, path string)
		want  string
	}{
		"removed": {func(t *testing.T, path string) { must(t, os.Remove(path)) }, "open PATH: no such file or directory"},
		"replaced by a FIFO": {func(t *testing.T, path string) {
			must(t, syscall.Mkfifo(path+".fifo", 0o600))
			must(t, os.Rename(path+".fifo", path))
		}, "read PATH: not a regular file (p---------)"},
		"replaced by a folder": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o700))
		}, "read PATH: not a regular file (d---------)"},
		"too large": {func(t *testing.T, path string) { replace(t, path, goodConf+strings.Repeat("#", maxSize)) }, "read PATH: larger than 1 MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "scheduler.conf")
			write(t, path, goodConf)
			loader := NewLoader(path, NewCatalogue(), false)
			good, err := loader.Load()
			must(t, err)
			attempts := startLoader(t, loader)

			tt.spoil(t, path)
			a := next(t, attempts)
			if got := withoutPath(a.err, path); a.cfg != nil || got != tt.want {
				t.Fatalf("reported %v, %q, want %q", a.cfg, got, tt.want)
			}
			if loader.Current() != good {
				t.Error("the configuration in force did not stay")
			}

			must(t, os.RemoveAll(path))
			write(t, path, goodConf)
			if a := next(t, attempts); a.err != nil || a.cfg == nil {
				t.Errorf("when the file is back, %v, %v is reported", a.cfg, a.err)
			}
			if len(attempts) > 0 {
				t.Errorf("and then %v", next(t, attempts))
			}
		})
	}
}

// TestLoadNeverWaits checks that Load never waits. Opening a FIFO without a writer blocks.
func TestLoadNeverWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	must(t, syscall.Mkfifo(path, 0o600))
	const want = "read PATH: not a regular file (p---------)"
	_, err := NewLoader(path, NewCatalogue(), false).Load()
	if got := withoutPath(err, path); got != want {
		t.Errorf("Load error %q, want %q", got, want)
	}
	_, err = ValidateFile(path, NewCatalogue())
	if got := withoutPath(err, path); got != want {
		t.Errorf("ValidateFile error %q, want %q", got, want)
	}
}

func TestWatchWithoutAFileEnds(t *testing.T) {
	loader := NewLoader("", NewCatalogue(), false)
	if err := loader.Watch(t.Context(), func(*Config, error) { t.Error("reported") }); err != nil {
		t.Error(err)
	}
}

func TestValidateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	if _, err := ValidateFile(path, NewCatalogue()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	write(t, path, goodConf)
	if warnings, err := ValidateFile(path, NewCatalogue()); err != nil || len(warnings) > 0 {
		t.Errorf("a good file: %v, %v", warnings, err)
	}
	write(t, path, goodConf+"  - name: overcommit\n    arguments: {overcommit-factor: '2'}\n")
	wantWarning := `PATH: line 6: argument "overcommit-factor" of plugin "overcommit" is taken as int 2; write it without quotes`
	if warnings, err := ValidateFile(path, NewCatalogue()); err != nil || len(warnings) != 1 || withoutPath(warnings[0], path) != wantWarning {
		t.Errorf("a file with quotes: %v, %v, want the warning %s", warnings, err, wantWarning)
	}
	write(t, path, badConf)
	want := `PATH: line 1: action "alocate" is unknown; did you mean "allocate"?
PATH: line 4: plugin "gagn" is unknown; did you mean "gang"?`
	_, err := ValidateFile(path, NewCatalogue())
	if got := withoutPath(err, path); got != want {
		t.Errorf("a bad file:\n%s\nwant:\n%s", got, want)
	}
}
