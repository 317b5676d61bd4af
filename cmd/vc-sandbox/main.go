// SPDX-License-Identifier: Apache-2.0

// Command vc-sandbox runs a real Kubernetes control plane with simulated nodes on this machine, with the scheduler and
// the controllers of this repository. `up` starts a sandbox for experiments, and `down` ends it. `demo` runs a
// demonstration in a new sandbox, and fails if the result of a step differs from the expected one.
//
// The command starts binaries from bin/, which make builds. It listens on loopback only. It leaves no process
// behind, and no file except in the directory that flag --dir names (see internal/controlplane).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nvc-sandbox:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "vc-sandbox",
		Short:         "A real control plane with simulated nodes and our scheduler, on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(upCommand(), demoCommand(), downCommand())
	return root
}

func upCommand() *cobra.Command {
	opts := defaultOptions()
	var statePath string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a sandbox and keep it until Ctrl-C or `vc-sandbox down`",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), opts, statePath, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	opts.addFlags(cmd.Flags())
	addStateFlag(cmd, &statePath)
	return cmd
}

func demoCommand() *cobra.Command {
	opts := defaultOptions()
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a new sandbox, show what gangs and pre-bind do, and end it; exit 1 if an outcome is wrong",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), opts, cmd.OutOrStdout())
		},
	}
	opts.addFlags(cmd.Flags())
	return cmd
}

func downCommand() *cobra.Command {
	var statePath string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the sandbox that `vc-sandbox up` keeps",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			terminate := func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
			return down(cmd.Context(), statePath, terminate, cmd.OutOrStdout())
		},
	}
	addStateFlag(cmd, &statePath)
	return cmd
}

func addStateFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "state-file", defaultStatePath(), "file in which `up` records its process id for `down`; one sandbox per file")
}
