package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
				t.Error("what was loaded is not in force")
			}
		})
	}
}

func defaultOrder() []string {
	return []string{"priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder"}
}

// withoutPath gives an error's text with PATH for the path, and "" for no error.
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
		t.Error("what was not accepted is in force")
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
	if err := ValidateFile(path, NewCatalogue()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	write(t, path, goodConf)
	if err := ValidateFile(path, NewCatalogue()); err != nil {
		t.Errorf("a good file: %v", err)
	}
	write(t, path, badConf)
	want := `PATH: line 1: action "alocate" is unknown; did you mean "allocate"?
PATH: line 4: plugin "gagn" is unknown; did you mean "gang"?`
	if got := withoutPath(ValidateFile(path, NewCatalogue()), path); got != want {
		t.Errorf("a bad file:\n%s\nwant:\n%s", got, want)
	}
}
