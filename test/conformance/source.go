// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// upstream is the Volcano module with which this build is compiled.
type upstream struct {
	dir, version, apis string
}

const (
	volcanoModule = "volcano.sh/volcano"
	apisModule    = "volcano.sh/apis"
)

func findUpstream(ctx context.Context, root string) (upstream, error) {
	var u upstream
	volcano, err := goTool(ctx, root, nil, "list", "-m", "-f", "{{.Dir}} {{.Version}}", volcanoModule)
	if err != nil {
		return u, err
	}
	apis, err := goTool(ctx, root, nil, "list", "-m", "-f", "{{.Version}}", apisModule)
	if err != nil {
		return u, err
	}
	var ok bool
	if u.dir, u.version, ok = strings.Cut(volcano, " "); !ok || u.dir == "" {
		return u, fmt.Errorf("%s is not in the module cache: run `go mod download`", volcanoModule)
	}
	u.apis = apis
	return u, nil
}

// goTool runs go in the folder and returns its output.
func goTool(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"GOWORK=off"}, env...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s%s", strings.Join(args, " "), dir, err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// module is a generated module in which upstream's packages are compiled. They cannot be compiled in place, because
// nothing can be added to the module cache.
type module struct {
	dir string
}

// moduleEnv lets go add the requirements that the generated module lacks.
var moduleEnv = []string{"GOFLAGS=-mod=mod -buildvcs=false"}

// newModule creates a module from the go.mod and go.sum of a folder, and edits its go.mod.
func newModule(ctx context.Context, dir, from string, edits ...string) (module, error) {
	m := module{dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return m, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return m, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return m, err
		}
	}
	_, err := goTool(ctx, dir, moduleEnv, append([]string{"mod", "edit"}, edits...)...)
	return m, err
}

// add writes the Go files of a folder into the package of that path, each as edit returns it.
func (m module) add(from, path string, edit func(name string, src []byte) ([]byte, error)) error {
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there are no Go files in %s", from)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if src, err = edit(filepath.Base(file), src); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := m.write(filepath.Join(path, filepath.Base(file)), src); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of the module unless it already has this content, because go first checks the time of a file.
func (m module) write(path string, src []byte) error {
	path = filepath.Join(m.dir, path)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, src) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, src, 0o644)
}

// compile builds the tests of a package into a binary.
func (m module) compile(ctx context.Context, pkg, binary string) error {
	_, err := goTool(ctx, m.dir, moduleEnv, "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary, "./"+pkg)
	return err
}
