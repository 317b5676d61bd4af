// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	nodeFile = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,96000,393216,8,G2\n"
	podFile  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np0,12000,16384,1,1000,,LS\np1,6000,12288,1,460,P100|G2,LS\np2,4000,1024,0,0,,BE\n"
)

// folder returns a folder with the files of a trace.
func folder(t *testing.T, nodes, pods string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"openb_node_list_gpu_node.csv": nodes, "openb_pod_list_default.csv": pods} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestATraceIsReadByTheNamesOfColumns(t *testing.T) {
	got, err := readTrace(folder(t, nodeFile, podFile), defaultWorkload)
	if err != nil {
		t.Fatal(err)
	}
	wantNodes := []node{{64_000, 262_144, 2, "P100"}, {96_000, 393_216, 8, "G2"}}
	wantTasks := []task{{12_000, 16_384, 1, 1000, ""}, {6000, 12_288, 1, 460, "P100|G2"}, {4000, 1024, 0, 0, ""}}
	unexported := cmp.AllowUnexported(node{}, task{})
	if diff := cmp.Diff(wantNodes, got.nodes, unexported); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantTasks, got.tasks, unexported); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	if got.size() != 10_000 {
		t.Errorf("the nodes have %d thousandths of GPUs, want 10,000", got.size())
	}
}

// TestATraceWithoutModels uses files in which no task names models of GPUs: derived workloads lack the column.
func TestATraceWithoutModels(t *testing.T) {
	got, err := readTrace(folder(t, nodeFile, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\n"), defaultWorkload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]task{{milliCPU: 1000, memoryMiB: 1024, gpus: 1, milliGPU: 500}}, got.tasks, cmp.AllowUnexported(task{})); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

func TestErrorsOfATraceAreReported(t *testing.T) {
	cases := map[string]struct{ nodes, pods, want string }{
		"a column is missing":     {strings.Replace(nodeFile, "model", "kind", 1), podFile, `line 2: there is no column "model"`},
		"a number is none":        {nodeFile, strings.Replace(podFile, "460", "half", 1), `line 3: column "gpu_milli" is "half"`},
		"no node has GPUs":        {"sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,0,\n", podFile, "no node has a GPU"},
		"no task asks for GPUs":   {nodeFile, "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n1,1,0,0,\n", "no task asks for GPUs"},
		"parts of several GPUs":   {nodeFile, strings.Replace(podFile, "1,460", "2,460", 1), "parts of 2 GPUs"},
		"more than a GPU of each": {nodeFile, strings.Replace(podFile, "460", "1460", 1), "1460 thousandths"},
		"the file is empty":       {nodeFile, "", "is empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := readTrace(folder(t, tc.nodes, tc.pods), defaultWorkload)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestTheSyntheticTraceHasTheShapeOfTheRealOne(t *testing.T) {
	tr := synthetic(1000, 3)
	if err := tr.check(); err != nil {
		t.Fatal(err)
	}
	var kinds, asked [4]int // without GPUs, with a part of one, one whole GPU, several
	for _, task := range tr.tasks {
		kind := 2
		switch {
		case task.gpus == 0:
			kind = 0
		case task.milliGPU < 1000:
			kind = 1
		case task.gpus > 1:
			kind = 3
		}
		kinds[kind]++
		asked[kind] += task.size()
	}
	// As in the real trace: 13%, 37%, 48% and 1% of tasks, and 8,152 tasks for 6,212 GPUs.
	for kind, want := range [4]int{13, 37, 48, 2} {
		if got := 100 * kinds[kind] / len(tr.tasks); got < want-4 || got > want+4 {
			t.Errorf("of kind %d are %d%% of the tasks, want about %d%%", kind, got, want)
		}
	}
	if perGPU := float64(1000*len(tr.tasks)) / float64(tr.size()); perGPU < 1.1 || perGPU > 1.5 {
		t.Errorf("there are %.2f tasks for each GPU, want about 1.3", perGPU)
	}
	again, other := synthetic(1000, 3), synthetic(1000, 4)
	unexported := cmp.AllowUnexported(trace{}, node{}, task{})
	if !cmp.Equal(tr, again, unexported) {
		t.Error("the same seed makes another trace")
	}
	if cmp.Equal(tr.tasks, other.tasks, unexported) {
		t.Error("another seed makes the same tasks")
	}
}
