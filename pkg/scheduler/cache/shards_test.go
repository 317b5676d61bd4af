// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	shardv1alpha1 "volcano.sh/apis/pkg/apis/shard/v1alpha1"
)

// inShard runs f with a harness whose scheduler has the NodeShard named own.
func inShard(t *testing.T, f func(t *testing.T, w *harness)) {
	t.Helper()
	withHarness(t, func(t *testing.T, w *harness) {
		w.cache.shards.own = "own"
		f(t, w)
	})
}

// showShard creates the NodeShard in the cluster, unless it exists, and notifies the cache.
func showShard(w *harness, name string, desired, inUse []string) {
	w.t.Helper()
	shard := &shardv1alpha1.NodeShard{ObjectMeta: metav1.ObjectMeta{Name: name}}
	shard.Spec.NodesDesired, shard.Status.NodesInUse = desired, inUse
	tracker, resource := w.cluster.Volcano.Tracker(), shardv1alpha1.SchemeGroupVersion.WithResource("nodeshards")
	if _, err := tracker.Get(resource, "", name); err != nil {
		if err := tracker.Add(shard); err != nil {
			w.t.Fatal(err)
		}
	}
	w.cache.shards.show(shard.DeepCopy())
}

// shardStatus returns the status of the scheduler's NodeShard in the API server.
func shardStatus(w *harness) shardv1alpha1.NodeShardStatus {
	w.t.Helper()
	synctest.Wait()
	shard, err := w.cluster.Volcano.ShardV1alpha1().NodeShards().Get(w.t.Context(), "own", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return shard.Status
}

// TestTheShardHasWhatNoOtherUses checks that the shard has the nodes that no other shard uses. A desired node belongs
// to the shard once the other shard, which has it in use, releases it.
func TestTheShardHasWhatNoOtherUses(t *testing.T) {
	tests := map[string]struct {
		happens func(w *harness)
		nodes   []string
		want    shardv1alpha1.NodeShardStatus
	}{
		"nothing else has them": {
			happens: func(w *harness) { showShard(w, "own", []string{"b", "a"}, nil) },
			nodes:   []string{"a", "b"}, want: shardv1alpha1.NodeShardStatus{NodesInUse: []string{"a", "b"}},
		},
		"another one has one of them": {
			happens: func(w *harness) {
				showShard(w, "other", nil, []string{"b"})
				showShard(w, "own", []string{"a", "b"}, nil)
			},
			nodes: []string{"a"}, want: shardv1alpha1.NodeShardStatus{NodesInUse: []string{"a"}, NodesToAdd: []string{"b"}},
		},
		"another one gives it up": {
			happens: func(w *harness) {
				showShard(w, "own", []string{"a", "b"}, nil)
				showShard(w, "other", nil, []string{"b"})
				showShard(w, "other", nil, nil)
			},
			nodes: []string{"a", "b"}, want: shardv1alpha1.NodeShardStatus{NodesInUse: []string{"a", "b"}},
		},
		"another one is deleted": {
			happens: func(w *harness) {
				showShard(w, "own", []string{"a", "b"}, nil)
				showShard(w, "other", nil, []string{"b"})
				w.cache.shards.hide(&shardv1alpha1.NodeShard{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
			},
			nodes: []string{"a", "b"}, want: shardv1alpha1.NodeShardStatus{NodesInUse: []string{"a", "b"}},
		},
		"its own does not exist yet": {
			happens: func(w *harness) {
				showShard(w, "other", nil, []string{"b"})
				showShard(w, "own", nil, nil)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inShard(t, func(t *testing.T, w *harness) {
				tt.happens(w)
				if diff := cmp.Diff(tt.nodes, sets.List(w.cache.Snapshot().NodesInShard), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("nodes of the shard in a session (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.want, shardStatus(w), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("status of the shard (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestTheShardIsReportedBetweenSessions checks that the shard is reported between sessions. Other schedulers take the
// nodes that the shard releases, which a running session may still use.
func TestTheShardIsReportedBetweenSessions(t *testing.T) {
	inShard(t, func(t *testing.T, w *harness) {
		w.cache.OnSessionOpen()
		showShard(w, "own", []string{"a"}, nil)
		if got := shardStatus(w).NodesInUse; len(got) > 0 {
			t.Errorf("%v are in use by the status while a session runs, want none yet", got)
		}
		w.cache.OnSessionClose()
		w.cache.OnSessionClose()
		if diff := cmp.Diff([]string{"a"}, shardStatus(w).NodesInUse); diff != "" {
			t.Errorf("nodes in use after the session (-want +got):\n%s", diff)
		}
	})
}

// TestAShardThatCannotBeReportedIsReportedLater checks that a shard that cannot be reported is reported later,
// because other shards wait for its released nodes.
func TestAShardThatCannotBeReportedIsReportedLater(t *testing.T) {
	inShard(t, func(t *testing.T, w *harness) {
		refused := true
		w.cluster.Volcano.PrependReactor("update", "nodeshards", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refused, nil, errors.New("the API server is away")
		})
		showShard(w, "own", []string{"a"}, nil)
		if got := shardStatus(w).NodesInUse; len(got) > 0 {
			t.Fatalf("%v are in use by the status, want none yet", got)
		}
		refused = false
		w.cache.OnSessionOpen()
		w.cache.OnSessionClose()
		if diff := cmp.Diff([]string{"a"}, shardStatus(w).NodesInUse); diff != "" {
			t.Errorf("nodes in use after the next session (-want +got):\n%s", diff)
		}
	})
}

// TestAShardThatIsAsItWasIsNotWritten checks that an unchanged shard is not written, since each write is an event for
// all schedulers.
func TestAShardThatIsAsItWasIsNotWritten(t *testing.T) {
	inShard(t, func(t *testing.T, w *harness) {
		showShard(w, "own", []string{"a"}, []string{"a"})
		synctest.Wait()
		if got := w.cluster.Writes(); len(got) > 0 {
			t.Errorf("written was %v, want nothing", got)
		}
		if err := w.cache.UpdateNodeShardStatus("none"); err != nil {
			t.Errorf("writing the status of a shard that does not exist: %v", err)
		}
	})
}
