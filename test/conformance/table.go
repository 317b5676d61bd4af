// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volcano-prebind/volcano-prebind/test/conformance/adapter"
)

// tablePackages are the packages of upstream's scheduler whose tests open sessions.
var tablePackages = []string{
	"actions/allocate", "actions/backfill", "actions/enqueue", "actions/preempt", "actions/reclaim", "actions/shuffle",
	"plugins/binpack", "plugins/capacity", "plugins/cdp", "plugins/conformance", "plugins/drf", "plugins/network-topology-aware",
	"plugins/nodegroup", "plugins/nodeorder", "plugins/overcommit", "plugins/pdb", "plugins/predicates", "plugins/priority",
	"plugins/proportion", "plugins/resource-strategy-fit", "plugins/resourcequota", "plugins/sla", "plugins/tdm", "plugins/usage",
}

const (
	schedulerPath = "pkg/scheduler"
	tableTimeout  = 400 * time.Second
	// oursSessions is any value of the adapter's variable other than upstream's.
	oursSessions = "ours"
)

// runTables runs the tables of each package twice: with upstream's sessions and with ours.
func runTables(ctx context.Context, opts options, source upstream, out io.Writer, keep func(result)) error {
	packages := slices.DeleteFunc(slices.Clone(tablePackages), func(pkg string) bool { return !opts.focus.MatchString(pkg) })
	dir, logs := filepath.Join(opts.work, "tables"), filepath.Join(opts.work, "logs", "tables")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	m, err := tablesModule(ctx, dir, opts.root, source, packages)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "tables: %d packages (building takes 4 minutes the first time)\n", len(packages))
	var errs []error
	for _, pkg := range packages {
		began := time.Now()
		name := strings.ReplaceAll(pkg, "/", ".")
		binary := filepath.Join(dir, name+".test")
		if err := m.compile(ctx, pkg, binary); err != nil {
			errs = append(errs, err)
			continue
		}
		built := time.Since(began)
		verdicts := map[string]cases{}
		for _, sessions := range []string{adapter.Upstream, oursSessions} {
			log := filepath.Join(logs, name+"."+sessions+".log")
			if err := runTable(ctx, binary, filepath.Join(dir, pkg), log, sessions); err != nil {
				return err
			}
			if verdicts[sessions], err = readCases(log); err != nil {
				return err
			}
		}
		results := mergeCases(tablesPart+" "+pkg, verdicts[adapter.Upstream], verdicts[oursSessions])
		for _, r := range results {
			keep(r)
		}
		fmt.Fprintf(out, "tables: %s: %d cases (%.0f s to build, %.0f s to run)\n", pkg, len(results), built.Seconds(), (time.Since(began) - built).Seconds())
		if len(results) == 0 {
			errs = append(errs, fmt.Errorf("the tests of %s opened no session; see %s", pkg, logs))
		}
	}
	return errors.Join(errs...)
}

// tablesModule creates a module with the packages, whose tests are rewritten, and with our dependency versions. Tests
// can use internals of their package, since it is copied as a whole.
func tablesModule(ctx context.Context, dir, root string, source upstream, packages []string) (module, error) {
	name, err := goTool(ctx, root, nil, "list", "-m")
	if err != nil {
		return module{}, err
	}
	edits := []string{"-module=" + tableModule, "-require=" + name + "@v0.0.0", "-replace=" + name + "=" + root}
	for _, path := range []string{"github.com/golang/mock", "github.com/stretchr/testify"} {
		version, err := requiredVersion(filepath.Join(source.dir, "go.mod"), path)
		if err != nil {
			return module{}, err
		}
		edits = append(edits, "-require="+path+"@"+version)
	}
	m, err := newModule(ctx, dir, root, edits...)
	if err != nil {
		return m, err
	}
	errs := []error{m.add(filepath.Join(source.dir, schedulerPath, "uthelper"), "uthelper", rewrite)}
	for _, pkg := range packages {
		errs = append(errs, m.add(filepath.Join(source.dir, schedulerPath, pkg), pkg, func(name string, src []byte) ([]byte, error) {
			if !strings.HasSuffix(name, "_test.go") {
				return src, nil
			}
			return rewrite(name, src)
		}))
	}
	return m, errors.Join(errs...)
}

// requiredVersion returns the version of a module that a go.mod requires.
func requiredVersion(gomod, path string) (string, error) {
	data, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); len(fields) >= 2 && fields[0] == path {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", gomod, path)
}

// runTable runs the tests of a package with their output in a log, which has the verdicts. Failing tests are not an
// error.
func runTable(ctx context.Context, binary, dir, log, sessions string) error {
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout="+tableTimeout.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), adapter.Variable+"="+sessions)
	cmd.Stdout, cmd.Stderr = f, f
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return ctx.Err()
	}
	return err
}
