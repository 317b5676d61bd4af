// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
)

// confFile is the configuration file of a scheduler. It is replaced atomically.
type confFile struct {
	dir, name string
	layout    ConfLayout
	// version is the number of the newest directory ..version_N with the file, for a file in the layout of a
	// mounted ConfigMap (ConfMount). The method swap increments it.
	version int
}

func (f *confFile) path() string { return filepath.Join(f.dir, f.name) }

func (f *confFile) write(text string) error {
	if f.layout == ConfMount {
		return f.swap(text)
	}
	next := f.path() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, f.path())
}

// swap writes the text to a new directory and points the link ..data to this directory, as the kubelet does for a
// ConfigMap. The path of the file stays the same, but leads to the new content.
func (f *confFile) swap(text string) error {
	old := f.versionDir()
	f.version++
	if err := os.Mkdir(filepath.Join(f.dir, f.versionDir()), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.dir, f.versionDir(), f.name), []byte(text), 0o644); err != nil {
		return err
	}
	next := filepath.Join(f.dir, "..data_tmp")
	if err := os.Symlink(f.versionDir(), next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(f.dir, "..data")); err != nil {
		return err
	}
	if f.version == 1 {
		return os.Symlink(filepath.Join("..data", f.name), f.path())
	}
	return os.RemoveAll(filepath.Join(f.dir, old))
}

func (f *confFile) versionDir() string { return fmt.Sprintf("..version_%d", f.version) }
