// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// tablesPart is the part with the unit tables. The other parts are suites.
const tablesPart = "tables"

type options struct {
	parts []string
	// focus limits the specs and the packages of tables.
	focus *regexp.Regexp
	work  string
	// docs is the page to write.
	docs string
	// upstream runs upstream's scheduler instead, and keeps its verdicts as the expected ones.
	upstream bool
	root     string
}

// page returns the path of the page: docs, below the root unless it is absolute.
func (o options) page() string {
	if filepath.IsAbs(o.docs) {
		return o.docs
	}
	return filepath.Join(o.root, o.docs)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	// client-go logs watches that end with the control plane, as they must.
	klog.SetLogger(logr.Discard())
	source, err := findUpstream(ctx, opts.root)
	if err != nil {
		return err
	}
	expected, err := readExpected(filepath.Join(opts.root, expectedFile))
	if err != nil {
		return err
	}
	accepted, err := readAccepted(filepath.Join(opts.root, acceptedFile))
	if err != nil {
		return err
	}
	began := time.Now()
	var errs []error
	found := results{}
	keep := func(r result) {
		if _, twice := found[r.key()]; twice {
			errs = append(errs, fmt.Errorf("two cases of %s are named %q, so that one hides the other", r.part, r.name))
		}
		found[r.key()] = r
	}
	for _, part := range opts.parts {
		if part == tablesPart {
			errs = append(errs, runTables(ctx, opts, source, out, keep))
		} else {
			errs = append(errs, runSuite(ctx, opts, source, suites[part], accepted, out, func(r result) {
				r.upstream = cmp.Or(expected[r.key()], unknown)
				keep(r)
			}))
		}
	}
	if opts.upstream {
		return errors.Join(append(errs, writeExpected(filepath.Join(opts.root, expectedFile), expected, found))...)
	}
	report := compare(found, expected, accepted, opts.covers)
	if opts.docs != "" {
		errs = append(errs, os.WriteFile(opts.page(), []byte(report.page(source, time.Since(began))), 0o644))
	}
	return errors.Join(append(errs, report.print(out))...)
}

// covers reports whether the case must be run.
func (o options) covers(part, name string) bool {
	if pkg, ok := strings.CutPrefix(part, tablesPart+" "); ok {
		part, name = tablesPart, pkg
	}
	return slices.Contains(o.parts, part) && o.focus.MatchString(name)
}

func parse(args []string) (options, error) {
	var opts options
	known := append(suiteNames(), tablesPart)
	fs := flag.NewFlagSet("conformance", flag.ContinueOnError)
	parts := fs.String("parts", strings.Join(known, ","), "What to run")
	focus := fs.String("focus", "", "Run only specs, and packages of tables, whose name matches this")
	fs.StringVar(&opts.work, "work", "bin/conformance", "Folder for what is built, and for logs")
	fs.StringVar(&opts.docs, "docs", "", "Page to write of a whole run")
	fs.BoolVar(&opts.upstream, "upstream", false, "Run upstream's scheduler instead and keep its verdicts as what is expected")
	if err := fs.Parse(args); err != nil {
		return opts, err
	}
	var err error
	if opts.root, err = controlplane.RepoRoot(); err != nil {
		return opts, err
	}
	if opts.focus, err = regexp.Compile(*focus); err != nil {
		return opts, fmt.Errorf("--focus: %w", err)
	}
	opts.parts = strings.Split(*parts, ",")
	for _, part := range opts.parts {
		if !slices.Contains(known, part) {
			return opts, fmt.Errorf("--parts names %q; there are %s", part, strings.Join(known, ", "))
		}
	}
	if opts.docs != "" && (*focus != "" || opts.upstream || slices.ContainsFunc(known, func(part string) bool { return !slices.Contains(opts.parts, part) })) {
		return opts, errors.New("--docs writes the page of a whole run: it goes with none of --parts, --focus and --upstream")
	}
	if opts.work, err = filepath.Abs(opts.work); err != nil {
		return opts, err
	}
	return opts, os.MkdirAll(opts.work, 0o755)
}
