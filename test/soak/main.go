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
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

type options struct {
	minutes float64
	seed    uint64
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
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	// client-go logs the intended outages.
	klog.SetLogger(logr.Discard())
	fmt.Fprintf(out, "soak of %g minutes, seed %d\n", opts.minutes, opts.seed)
	given := opts.dir != ""
	if !given {
		dir, err := os.MkdirTemp("", "soak-")
		if err != nil {
			return err
		}
		opts.dir = dir
	}
	s, err := start(ctx, opts, out)
	if err == nil {
		err = errors.Join(s.play(ctx), s.stop())
	}
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
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.Float64Var(&opts.minutes, "minutes", 3, "How long things break, in minutes")
	fs.Uint64Var(&opts.seed, "seed", rand.Uint64(), "Seed of workload and faults; random when not given")
	fs.StringVar(&opts.dir, "dir", "", "Directory that keeps logs and data; a temporary one, kept after a failure only, when not given")
	if err := fs.Parse(args); err != nil {
		return opts, err
	}
	if opts.minutes <= 0 {
		return opts, fmt.Errorf("--minutes is %g; it must be more than 0", opts.minutes)
	}
	return opts, nil
}

func minutes(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
