// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// node is a node of the trace.
type node struct {
	milliCPU, memoryMiB int64
	gpus                int
	model               string
}

// task is a task of the trace. Equal tasks are equal.
type task struct {
	milliCPU, memoryMiB int64
	// gpus is the number of GPUs that the task needs, and milliGPU the share of each in thousandths.
	gpus, milliGPU int
	// models are the allowed models, separated by |. An empty value means any.
	models string
}

// size returns the task's request in thousandths of a GPU.
func (t task) size() int { return t.gpus * t.milliGPU }

// trace is a cluster, and the tasks that ran on it.
type trace struct {
	name  string
	nodes []node
	tasks []task
}

// size returns the GPUs of all nodes, in thousandths.
func (t *trace) size() int {
	sum := 0
	for _, n := range t.nodes {
		sum += 1000 * n.gpus
	}
	return sum
}

// readTrace reads the nodes, and the tasks of a workload, from a folder with the files of Alibaba's
// cluster-trace-gpu-v2023.
func readTrace(folder, workload string) (*trace, error) {
	t := &trace{name: fmt.Sprintf("the trace in %s, workload %s", folder, workload)}
	err := readCSV(filepath.Join(folder, "openb_node_list_gpu_node.csv"), func(r record) {
		t.nodes = append(t.nodes, node{milliCPU: r.number("cpu_milli"), memoryMiB: r.number("memory_mib"), gpus: int(r.number("gpu")), model: r.text("model")})
	})
	if err != nil {
		return nil, err
	}
	err = readCSV(filepath.Join(folder, "openb_pod_list_"+workload+".csv"), func(r record) {
		n := task{milliCPU: r.number("cpu_milli"), memoryMiB: r.number("memory_mib"), gpus: int(r.number("num_gpu")), milliGPU: int(r.number("gpu_milli")), models: r.optional("gpu_spec")}
		if n.gpus == 0 {
			n.milliGPU, n.models = 0, ""
		}
		t.tasks = append(t.tasks, n)
	})
	if err != nil {
		return nil, err
	}
	return t, t.check()
}

// check returns an error for the parts of the trace that cannot be run.
func (t *trace) check() error {
	if t.size() == 0 {
		return fmt.Errorf("%s: no node has a GPU", t.name)
	}
	asked := 0
	for i, task := range t.tasks {
		asked += task.size()
		switch {
		case task.milliCPU < 0 || task.memoryMiB < 0 || task.gpus < 0:
			return fmt.Errorf("%s: task %d asks for less than nothing: %+v", t.name, i, task)
		case task.gpus > 0 && (task.milliGPU < 1 || task.milliGPU > 1000):
			return fmt.Errorf("%s: task %d asks for %d thousandths of a GPU, want 1 to 1000", t.name, i, task.milliGPU)
		case task.gpus > 1 && task.milliGPU != 1000:
			return fmt.Errorf("%s: task %d requests parts of %d GPUs, want a part of one or several whole ones", t.name, i, task.gpus)
		}
	}
	if asked == 0 {
		return fmt.Errorf("%s: no task asks for GPUs", t.name)
	}
	return nil
}

// record is a line of a file. Its first error is kept.
type record struct {
	columns map[string]int
	fields  []string
	err     *error
}

func (r record) text(column string) string {
	at, ok := r.columns[column]
	if !ok {
		r.fail(fmt.Errorf("there is no column %q", column))
		return ""
	}
	return r.fields[at]
}

// optional returns the text of a column that some files do not have.
func (r record) optional(column string) string {
	if _, ok := r.columns[column]; !ok {
		return ""
	}
	return r.text(column)
}

func (r record) number(column string) int64 {
	text := r.text(column)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.fail(fmt.Errorf("column %q is %q, want a whole number", column, text))
	}
	return n
}

func (r record) fail(err error) {
	if *r.err == nil {
		*r.err = err
	}
}

// readCSV calls add for each line of the file after the first, which has the names of the columns.
func readCSV(path string, add func(record)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(lines) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	columns := map[string]int{}
	for i, name := range lines[0] {
		columns[name] = i
	}
	for i, fields := range lines[1:] {
		var invalid error
		add(record{columns, fields, &invalid})
		if invalid != nil {
			return fmt.Errorf("%s, line %d: %w", path, i+2, invalid)
		}
	}
	return nil
}
