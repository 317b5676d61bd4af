// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	shardv1alpha1 "volcano.sh/apis/pkg/apis/shard/v1alpha1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
)

// shardTimeout bounds one write of the status of a NodeShard.
const shardTimeout = 15 * time.Second

// shards decides which nodes are in this scheduler's NodeShard: nodes that its spec lists and that no other NodeShard
// has in use. The nodes in use are written to its status only between sessions, because other schedulers use a node as
// soon as the status no longer lists it.
type shards struct {
	books *books.Books
	vc    vcclient.Interface
	own   string

	mu  sync.Mutex
	all map[string]*shardv1alpha1.NodeShard
	// running reports whether a session runs. pending reports whether the status of this scheduler's NodeShard must be
	// written when the session ends.
	running, pending bool
}

// sharding reports whether the flags enable sharding.
func sharding() bool {
	return options.ServerOpts != nil && (options.ServerOpts.ShardingMode == util.HardShardingMode || options.ServerOpts.ShardingMode == util.SoftShardingMode)
}

func newShards(books *books.Books, vc vcclient.Interface) *shards {
	s := &shards{books: books, vc: vc, all: map[string]*shardv1alpha1.NodeShard{}}
	if options.ServerOpts != nil {
		s.own = options.ServerOpts.ShardName
	}
	return s
}

func (s *shards) show(shard *shardv1alpha1.NodeShard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[shard.Name] = shard
	s.refresh()
}

func (s *shards) hide(shard *shardv1alpha1.NodeShard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, shard.Name)
	s.refresh()
}

// refresh computes the nodes of this scheduler's NodeShard. The caller must hold the mutex.
func (s *shards) refresh() {
	own := s.all[s.own]
	if own == nil {
		logger().Info("The scheduler's NodeShard does not exist", "name", s.own)
		return
	}
	nodes := sets.New(own.Spec.NodesDesired...)
	for name, other := range s.all {
		if name != s.own {
			nodes.Delete(other.Status.NodesInUse...)
		}
	}
	s.books.Lock()
	s.books.InShard = nodes
	s.books.Unlock()
	if s.running {
		s.pending = true
		return
	}
	go s.report()
}

// sessionOpens postpones writes of the NodeShard's status until the session ends.
func (s *shards) sessionOpens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
}

// sessionCloses writes the NodeShard's status if it changed during the session.
func (s *shards) sessionCloses() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	if s.pending {
		s.pending = false
		go s.report()
	}
}

// report writes the NodeShard's status. A failed write is repeated after the next session, because other schedulers
// wait for the status.
func (s *shards) report() {
	if err := s.write(s.own); err != nil {
		logger().Error(err, "Updating the status of the NodeShard failed")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending = true
	}
}

func (s *shards) write(name string) error {
	s.mu.Lock()
	shown := s.all[name]
	s.mu.Unlock()
	if shown == nil {
		return nil
	}
	s.books.Lock()
	inUse := s.books.InShard.Clone()
	s.books.Unlock()
	desired := sets.New(shown.Spec.NodesDesired...)
	shard := shown.DeepCopy()
	shard.Status.NodesInUse = sets.List(inUse)
	shard.Status.NodesToRemove = sets.List(inUse.Difference(desired))
	shard.Status.NodesToAdd = sets.List(desired.Difference(inUse))
	if sameNodes(shown.Status.NodesInUse, shard.Status.NodesInUse) && sameNodes(shown.Status.NodesToRemove, shard.Status.NodesToRemove) &&
		sameNodes(shown.Status.NodesToAdd, shard.Status.NodesToAdd) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shardTimeout)
	defer cancel()
	if _, err := s.vc.ShardV1alpha1().NodeShards().UpdateStatus(ctx, shard, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of NodeShard %s: %w", name, err)
	}
	return nil
}

func sameNodes(a, sorted []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), sorted)
}
