// SPDX-License-Identifier: Apache-2.0

package testing

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWatchesShowVersionsInOrder checks that watches show versions in order. Informers, and their substitutes in tests,
// ignore an older version. Pods that arrived during another write were missing from caches forever.
func TestWatchesShowVersionsInOrder(t *testing.T) {
	const rounds, writers, each = 50, 4, 20 // The fake's watch holds 100 events.
	c := NewCluster()
	watch, err := c.Kube.Tracker().Watch(v1.SchemeGroupVersion.WithResource("pods"), "")
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for round := range rounds {
		var work sync.WaitGroup
		for w := range writers {
			work.Go(func() {
				for i := range each {
					write(t, c, MakePod().Name(fmt.Sprintf("p%d-%d-%d", round, w, i)).Obj(), w%2 == 0)
				}
			})
		}
		work.Wait()
		for range writers * each {
			pod := (<-watch.ResultChan()).Object.(*v1.Pod)
			version, err := strconv.Atoi(pod.ResourceVersion)
			if err != nil {
				t.Fatal(err)
			}
			if version <= last {
				t.Fatalf("pod %s has version %d, and was shown after version %d", pod.Name, version, last)
			}
			last = version
		}
	}
}

func write(t *testing.T, c *Cluster, pod *v1.Pod, byClient bool) {
	if !byClient {
		c.Put(pod)
		return
	}
	if _, err := c.Kube.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}
