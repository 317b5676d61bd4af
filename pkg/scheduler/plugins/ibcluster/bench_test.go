// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// BenchmarkSession measures a session with 5,000 nodes in 40 clusters and 750 gangs of 4 members that must each share
// one cluster.
func BenchmarkSession(b *testing.B) {
	var w sessiontest.ClusterSpec
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("n%d ib-%d s%d l%d", i, i/125, i/64, i/16))
	}
	w.Nodes = nodes(names...)
	for i := range 750 {
		name := fmt.Sprintf("g%d", i)
		w.PodGroups = append(w.PodGroups, gang(name, 4, "mode=required").Obj())
		w.Pods = append(w.Pods, members(name+"/0", name+"/1", name+"/2", name+"/3")...)
	}
	cluster := sessiontest.New(w)
	defer cluster.Close()
	var p *plugin
	spec := Spec()
	build := spec.New
	spec.Load = func(args framework.Arguments) (framework.Builder, error) {
		return func(h framework.Handle) (framework.Plugin, error) {
			built, err := build(args, h)
			p = built.(*plugin)
			return built, err
		}, nil
	}
	registry := framework.NewRegistry()
	registry.RegisterPlugin(spec)
	ssn := cluster.Open(registry, conf())
	defer ssn.Close()
	var tasks []*api.TaskInfo
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			tasks = append(tasks, task)
			break
		}
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			p.session = nil
			p.open(ssn.Session)
		}
	})
	s := p.open(ssn.Session)
	b.Run("predicate of 5,000 nodes", func(b *testing.B) {
		i := 0
		for b.Loop() {
			task := tasks[i%len(tasks)]
			for _, node := range ssn.NodeList {
				_ = s.predicate(task, node)
			}
			i++
		}
	})
	b.Run("groups", func(b *testing.B) {
		i := 0
		for b.Loop() {
			clear(s.scopes)
			if _, err := s.nodeGroups(ssn.Jobs[tasks[i%len(tasks)].Job]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}
