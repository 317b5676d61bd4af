// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

const (
	// storyClusters is how many InfiniBand clusters, of two nodes or more, the demo needs.
	storyClusters = 3
	// logTail is how many lines of the scheduler's log are shown if the demo fails.
	logTail = 15
)

var errInterrupted = errors.New("interrupted")

// story is the state of the demo.
type story struct {
	sandbox  *sandbox
	kube     kubernetes.Interface
	vc       vcclient.Interface
	view     *view
	clusters []ibCluster
	// among are the names of the clusters that the demo uses; empty if it uses all clusters of the sandbox.
	among []string
	// inTheWay are gangs whose pods use nodes of the first two clusters; once a gang was bound in the second cluster as a
	// whole, this gang. done is a running gang of an earlier step, which a later step removes.
	inTheWay [2]gang
	done     gang
	out      io.Writer
	rows     []row
}

// demo starts a sandbox, runs the steps of the demo in it and prints the results. It returns an error if the result of
// any step differs from the expected one.
func demo(ctx context.Context, opts *options, out io.Writer) (err error) {
	began := time.Now()
	if err := opts.complete(); err != nil {
		return err
	}
	clusters, err := stage(opts)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, heading(opts))
	sandbox, err := start(ctx, opts, out)
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	defer func() { err = errors.Join(err, sandbox.cp.Stop()) }()
	s, err := newStory(ctx, sandbox, out)
	if err != nil {
		return err
	}
	defer s.view.close()
	s.clusters = clusters
	if opts.nodes.IBClusters > len(clusters) {
		for _, c := range clusters {
			s.among = append(s.among, c.name)
		}
	}

	if err := s.play(ctx); err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		fmt.Fprintf(out, "  ✗ %v\n\nThe end of the scheduler's log:\n%s\n", err, sandbox.scheduler.LogTail(logTail))
		return errors.New("the demo failed")
	}
	fmt.Fprintln(out)
	if err := writeTable(out, s.rows); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nThe demo succeeded in %s, including the start of the control plane. To try things yourself: bin/vc-sandbox up\n",
		short(time.Since(began)))
	return err
}

// stage returns the InfiniBand clusters that the demo uses.
func stage(opts *options) ([]ibCluster, error) {
	clusters, err := opts.ibClusters()
	if err != nil {
		return nil, err
	}
	if len(clusters) < storyClusters {
		return nil, fmt.Errorf("the demo needs %d InfiniBand clusters or more: raise --ib-clusters or --nodes", storyClusters)
	}
	clusters = clusters[:storyClusters]
	for _, c := range clusters {
		if len(c.nodes) < 2 {
			return nil, fmt.Errorf("the demo needs two nodes or more in InfiniBand cluster %q: raise --nodes", c.name)
		}
	}
	return clusters, nil
}

func newStory(ctx context.Context, sandbox *sandbox, out io.Writer) (*story, error) {
	kube, err := kubernetes.NewForConfig(sandbox.cp.Config())
	if err != nil {
		return nil, err
	}
	vc, err := vcclient.NewForConfig(sandbox.cp.Config())
	if err != nil {
		return nil, err
	}
	view, err := newView(ctx, kube, vc, sandbox.cp.Dead())
	if err != nil {
		return nil, err
	}
	return &story{sandbox: sandbox, kube: kube, vc: vc, view: view, out: out}, nil
}

func (s *story) play(ctx context.Context) error {
	if err := s.awaitFirstCycle(ctx); err != nil {
		return err
	}
	for i, chapter := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"A gang that must be in one InfiniBand cluster", s.shares},
		{"A gang that fits no cluster as a whole", s.fitsNone},
		{"A gang whose pre-bind is refused on one node", s.refused},
		{"A gang that moves to another cluster when its pre-bind is refused", s.moves},
		{"A gang whose volumes cannot be provisioned in one cluster", s.withVolumes},
		{"A Volcano job", s.vcjob},
		{"A gang whose ranks get GPUs with the NIC beside them", s.withDevices},
		{"A trainer and its parameter servers, as one gang group", s.asGroup},
		{"An urgent gang that takes the place of another gang", s.evicts},
	} {
		fmt.Fprintf(s.out, "\n%d. %s\n", i+1, chapter.title)
		if err := chapter.play(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) say(format string, args ...any)  { fmt.Fprintf(s.out, "    "+format+"\n", args...) }
func (s *story) tick(format string, args ...any) { fmt.Fprintf(s.out, "  ✓ "+format+"\n", args...) }
