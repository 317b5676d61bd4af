// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

func TestFlags(t *testing.T) {
	cases := map[string]struct {
		args []string
		want options
	}{
		"defaults": {want: *defaultOptions()},
		"all": {
			args: []string{
				"--nodes=40", "--ib-clusters=5", "--nodes-per-leaf=2", "--gpus-per-node=4", "--rdma-per-node=2", "--cpu=64", "--memory=1Ti",
				"--pods-per-node=20", "--scheduler-conf=my.conf", "--bin-dir=/b", "--dir=/d",
			},
			want: options{
				nodes: controlplane.NodeShape{
					Count: 40, IBClusters: 5, IBClusterLabel: clusterLabel, NodesPerLeaf: 2, GPUs: 4, RDMA: 2, CPU: "64", Memory: "1Ti", Pods: 20,
				},
				confPath: "my.conf", binDir: "/b", dir: "/d",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts := defaultOptions()
			flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
			opts.addFlags(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *opts, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	cases := map[string][]string{
		"a flag":     {"up", "--node=3"},
		"a command":  {"restart"},
		"arguments":  {"demo", "now"},
		"wrong type": {"demo", "--nodes=many"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand()
			cmd.SetArgs(args)
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err == nil {
				t.Errorf("%v was accepted", args)
			}
		})
	}
}

func TestCheckNodes(t *testing.T) {
	cases := map[string]struct {
		change func(*controlplane.NodeShape)
		want   []string
	}{
		"defaults":     {change: func(*controlplane.NodeShape) {}},
		"several":      {change: func(n *controlplane.NodeShape) { n.Count, n.GPUs = 0, -1 }, want: []string{"--nodes is 0, must be at least 1", "--gpus-per-node"}},
		"bad quantity": {change: func(n *controlplane.NodeShape) { n.Memory = "lots" }, want: []string{`memory "lots"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts := defaultOptions()
			tc.change(&opts.nodes)
			checkError(t, opts.checkNodes(), tc.want)
		})
	}
}

func TestCheckDir(t *testing.T) {
	full := t.TempDir()
	write(t, filepath.Join(full, "file"))
	cases := map[string]struct {
		dir  string
		want []string
	}{
		"temporary": {},
		"empty":     {dir: t.TempDir()},
		"to make":   {dir: filepath.Join(t.TempDir(), "new")},
		"full":      {dir: full, want: []string{"is not empty"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checkError(t, (&options{dir: tc.dir}).checkDir(), tc.want)
		})
	}
}

func TestMissingBinariesAreNamedWithTheirTargets(t *testing.T) {
	dir := t.TempDir()
	for _, name := range binaries {
		write(t, filepath.Join(dir, name))
	}
	checkError(t, checkBinaries(dir), nil)
	for _, name := range []string{"kwok", "vc-scheduler"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	checkError(t, checkBinaries(dir), []string{"has no kwok, vc-scheduler", "`make bin/kwok bin/vc-scheduler`"})
}

func TestStageOfTheStory(t *testing.T) {
	cases := map[string]struct {
		nodes, clusters int
		want            []string
		wantErr         []string
	}{
		"defaults":               {nodes: 12, clusters: 3, want: []string{"ib-0: 4", "ib-1: 4", "ib-2: 4"}},
		"more than needed":       {nodes: 10, clusters: 4, want: []string{"ib-0: 3", "ib-1: 3", "ib-2: 3"}},
		"no clusters":            {nodes: 12, wantErr: []string{"--ib-clusters"}},
		"a cluster without node": {nodes: 4, clusters: 3, wantErr: []string{"needs 3 InfiniBand clusters"}},
		"a cluster of one":       {nodes: 5, clusters: 3, wantErr: []string{`two nodes or more in InfiniBand cluster "ib-2"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts := defaultOptions()
			opts.nodes.Count, opts.nodes.IBClusters = tc.nodes, tc.clusters
			clusters, err := stage(opts)
			checkError(t, err, tc.wantErr)
			var got []string
			for _, c := range clusters {
				got = append(got, fmt.Sprintf("%s: %d", c.name, len(c.nodes)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTwoMembersNeverShareANode(t *testing.T) {
	cases := map[string]func(*controlplane.NodeShape){
		"with GPUs":   func(*controlplane.NodeShape) {},
		"with CPUs":   func(n *controlplane.NodeShape) { n.GPUs = 0 },
		"with little": func(n *controlplane.NodeShape) { n.GPUs, n.CPU = 0, "500m" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			opts := defaultOptions()
			change(&opts.nodes)
			clusters, err := stage(opts)
			if err != nil {
				t.Fatal(err)
			}
			node := clusters[0].nodes[0]
			full := false
			for resource, one := range wholeNode(node) {
				room := node.Status.Allocatable[resource]
				if one.Cmp(room) > 0 {
					t.Errorf("a member asks for %s of %s, a node has %s", &one, resource, &room)
				}
				two := one.DeepCopy()
				two.Add(one)
				full = full || two.Cmp(room) > 0
			}
			if !full {
				t.Error("two members fit on a node")
			}
		})
	}
}
