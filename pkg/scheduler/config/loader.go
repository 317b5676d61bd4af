// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"k8s.io/klog/v2"
)

// Loader holds the current configuration. An invalid configuration never replaces it.
type Loader struct {
	path           string
	catalogue      *Catalogue
	disableDefault bool
	accept         func(*Config) error

	// loading is locked while a configuration is parsed and put into effect.
	loading sync.Mutex
	// last is the content of the file that was read last, valid or not.
	last []byte

	mu      sync.Mutex
	current *Config
}

// LoaderOption configures a Loader.
type LoaderOption func(*Loader)

// WithAccept adds a check of each valid configuration before it takes effect. If the check returns an error, the
// configuration is rejected as if it were invalid. The check may build the plugins.
func WithAccept(accept func(*Config) error) LoaderOption {
	return func(l *Loader) { l.accept = accept }
}

// NewLoader returns a loader of a file. Without a path, or for a file without content, the loader uses the built-in
// configuration, unless disableDefault is set.
func NewLoader(path string, cat *Catalogue, disableDefault bool, opts ...LoaderOption) *Loader {
	l := &Loader{path: path, catalogue: cat, disableDefault: disableDefault, accept: func(*Config) error { return nil }}
	for _, opt := range opts {
		opt(l)
	}
	return l
}

// Current returns the current configuration; nil before the first successful Load.
func (l *Loader) Current() *Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// Load reads the file and makes its configuration current. After an error, the previous configuration stays current.
func (l *Loader) Load() (*Config, error) {
	var data []byte
	if l.path != "" {
		var err error
		if data, err = readFile(l.path); err != nil {
			return nil, err
		}
	}
	return l.apply(data)
}

// Watch loads the file whenever its content changes, until ctx ends. After each attempt it calls report with the new
// configuration, or with the reason why the previous configuration stays, for example that the file cannot be read. If
// the loader has no path, Watch returns at once.
func (l *Loader) Watch(ctx context.Context, report func(*Config, error)) error {
	if l.path == "" {
		return nil
	}
	l.loading.Lock()
	last := l.last
	l.loading.Unlock()
	onChange := func(data []byte, err error) {
		if err != nil {
			report(nil, err)
			return
		}
		report(l.apply(data))
	}
	return Watch(ctx, l.path, onChange, WithSeen(last))
}

func (l *Loader) apply(data []byte) (*Config, error) {
	l.loading.Lock()
	defer l.loading.Unlock()
	known := l.last != nil && bytes.Equal(l.last, data)
	l.last = data
	cfg, err := Parse(data, l.catalogue)
	if err == nil {
		err = l.permit(cfg)
	}
	if err == nil {
		err = l.accept(cfg)
	}
	if err != nil && l.path != "" {
		err = &FileError{Path: l.path, Err: err}
	}
	if err != nil {
		return nil, err
	}
	if !known {
		for _, warning := range cfg.Warnings {
			klog.Warning(&FileError{Path: l.path, Err: warning})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = cfg
	return cfg, nil
}

// permit returns an error if cfg is the built-in configuration and may not be used. The built-in configuration never
// replaces the configuration of a file: a file that was just emptied is probably about to be written.
func (l *Loader) permit(cfg *Config) error {
	current := l.Current()
	switch {
	case !cfg.Default:
		return nil
	case l.disableDefault && l.path == "":
		return errors.New("no configuration is given (--scheduler-conf), and the built-in one is disabled (--disable-default-scheduler-config)")
	case l.disableDefault:
		return errors.New("the file is empty, and the built-in configuration is disabled (--disable-default-scheduler-config)")
	case current != nil && !current.Default:
		return errors.New("the file is empty; the built-in configuration does not replace the one in force")
	default:
		return nil
	}
}

// ValidateFile checks a configuration file. Its errors and warnings are for users: each finding is one line with the
// file, the line, the fault and a valid value.
func ValidateFile(path string, cat *Catalogue) (warnings []error, err error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	cfg, err := Parse(data, cat)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	for _, warning := range cfg.Warnings {
		warnings = append(warnings, &FileError{Path: path, Err: warning})
	}
	return warnings, nil
}
