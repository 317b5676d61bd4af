// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// settle waits until no work is pending, and compares the books with the books of a new cache.
func (tr *truth) settle() {
	tr.t.Helper()
	for len(tr.away) > 0 {
		tr.registerNode()
	}
	for len(tr.late) > 0 {
		tr.makeClaim()
	}
	tr.endGap()
	eventually(tr.t, "all transactions end", func() bool {
		for i := range 3 {
			if tr.cache.ledger.InFlight(api.JobID(fmt.Sprintf("ns/g%d", i))) {
				return false
			}
		}
		return true
	})
	fresh := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	copyTo(tr.t, tr.cluster, fresh)
	other := startLive(tr.t, fresh, quiet{})
	for _, pod := range tr.watch.list() { // after the classes, without which no volumes are counted
		fresh.Put(pod)
	}
	diff := "not compared"
	deadline := time.After(20 * time.Second)
	for diff != "" {
		select {
		case <-deadline:
			tr.t.Fatalf("the books of a new cache and of this one (-want +got):\n%s", diff)
		case <-time.After(time.Millisecond):
			diff = cmp.Diff(booksOf(other.cache), booksOf(tr.cache))
		}
	}
}

// copyTo copies all objects except pods from one cluster to the other.
func copyTo(t *testing.T, from, to *schedtest.Cluster) {
	t.Helper()
	for kind, resource := range map[schema.GroupVersionKind]schema.GroupVersionResource{
		v1.SchemeGroupVersion.WithKind("Node"):                  v1.SchemeGroupVersion.WithResource("nodes"),
		v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"): v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):   storagev1.SchemeGroupVersion.WithResource("storageclasses"),
		v1beta1.SchemeGroupVersion.WithKind("PodGroup"):         v1beta1.SchemeGroupVersion.WithResource("podgroups"),
	} {
		source, target := from.Kube.Tracker(), to.Kube.Tracker()
		if kind.Kind == "PodGroup" {
			source, target = from.Volcano.Tracker(), to.Volcano.Tracker()
		}
		list, err := source.List(resource, kind, "")
		if err != nil {
			t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if err := target.Add(object.DeepCopyObject()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// booksOf returns what sessions would see in the cache: the used resources and the tasks of each node and job.
func booksOf(c *Cache) map[string][]string {
	held := c.books.Pods.Held()
	c.SessionSnapshot()
	c.books.Lock()
	defer c.books.Unlock()
	books := map[string][]string{}
	nodes := maps.Collect(c.books.Nodes.Absent())
	for _, name := range c.books.Nodes.Registered() {
		nodes[name] = c.books.Nodes.Get(name)
	}
	for name, node := range nodes {
		entries := []string{fmt.Sprintf("used %v idle %v releasing %v", sum(node.Used), sum(node.Idle), sum(node.Releasing))}
		for key, task := range node.Tasks {
			entries = append(entries, fmt.Sprintf("%s: %s %s", key, task.UID, task.Status))
		}
		slices.Sort(entries)
		books["node "+name] = entries
	}
	for id, job := range c.books.Jobs.All() {
		var entries []string
		for uid, task := range job.Tasks {
			entries = append(entries, fmt.Sprintf("%s: %s on %q, requests %v, %v", uid, task.Status, task.NodeName, sum(task.Resreq), task.Pod.Annotations))
		}
		slices.Sort(entries)
		books["job "+string(id)] = entries
	}
	if held > 0 {
		books["held"] = []string{fmt.Sprint(held)}
	}
	return books
}

// sum returns the amounts of the resource by name.
func sum(r *api.Resource) map[v1.ResourceName]float64 {
	sum := maps.Clone(r.ScalarResources)
	if sum == nil {
		sum = map[v1.ResourceName]float64{}
	}
	sum[v1.ResourceCPU] = r.MilliCPU
	maps.DeleteFunc(sum, func(_ v1.ResourceName, amount float64) bool { return amount == 0 })
	return sum
}
