// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

type options struct {
	minutes float64
	only    *regexp.Regexp
	seed    uint64
	list    bool
	// markdown makes list print the table of docs/attacks.md.
	markdown bool
	selfTest bool
	// dir is the directory for logs and data. They are kept if it is set, and after a failure.
	dir string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	attacks := chosen(opts)
	if len(attacks) == 0 {
		return fmt.Errorf("--only %q matches no attack; --list prints their names", opts.only)
	}
	if opts.list {
		list(out, attacks, opts.markdown)
		return nil
	}
	// client-go logs the rejections that attacks provoke.
	klog.SetLogger(logr.Discard())
	given := opts.dir != ""
	if !given {
		if opts.dir, err = os.MkdirTemp("", "attack-"); err != nil {
			return err
		}
	}
	err = play(ctx, opts, attacks, out)
	switch {
	case err != nil:
		return fmt.Errorf("%w\nlogs and data are in %s", err, opts.dir)
	case !given:
		return os.RemoveAll(opts.dir)
	}
	return nil
}

func parse(args []string) (options, error) {
	var opts options
	fs := flag.NewFlagSet("attack", flag.ContinueOnError)
	fs.Float64Var(&opts.minutes, "minutes", 10, "How long the run takes, in minutes; the time of each attack follows, within bounds")
	only := fs.String("only", "", "Regular expression of the attacks to run; all when empty")
	fs.Uint64Var(&opts.seed, "seed", rand.Uint64(), "Seed of the order of the attacks and of their random values; random when not given")
	fs.BoolVar(&opts.list, "list", false, "Print the table of attacks and exit")
	fs.BoolVar(&opts.markdown, "markdown", false, "With --list: print the table in Markdown")
	fs.BoolVar(&opts.selfTest, "self-test", false, "Run breakages that must be found, in place of the attacks")
	fs.StringVar(&opts.dir, "dir", "", "Directory that keeps logs and data; a temporary one, kept after a failure only, when not given")
	if err := fs.Parse(args); err != nil {
		return opts, err
	}
	if opts.minutes <= 0 {
		return opts, fmt.Errorf("--minutes is %g; it must be more than 0", opts.minutes)
	}
	var err error
	if opts.only, err = regexp.Compile(*only); err != nil {
		return opts, fmt.Errorf("--only: %w", err)
	}
	return opts, nil
}

// chosen returns the attacks to run, in the order of the table.
func chosen(opts options) []attack {
	from := table()
	if opts.selfTest {
		from = breakages()
	}
	var attacks []attack
	for _, a := range from {
		if opts.only.MatchString(a.name) {
			attacks = append(attacks, a)
		}
	}
	return attacks
}
