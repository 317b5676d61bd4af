// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// nodeLocks holds the node locks that the placements of a session need.
//
// If deviceshare.NodeLockEnable is set, a pod needs a lock of its node for its kind of devices. The lock is an
// annotation of the node whose value is a time. The kubelet does not say to the device plugin for which pod it requests
// devices, so only one pod may start at a time. The device plugin releases the lock when it has assigned the pod's
// devices.
//
// Upstream takes the lock when the pod is placed, with three calls to the API server, and does not release it if the
// placement is undone. Here a session takes locks only on its own copies of nodes. The pre-bind step lockStep takes the
// locks on the API server.
type nodeLocks struct {
	// kinds are the kinds of devices for which nodes are locked; empty unless deviceshare.NodeLockEnable is set.
	kinds []kind
	nodes map[string]*api.NodeInfo

	// mu guards the fields below, because pre-bind steps may use the session's client.
	mu sync.Mutex
	// held has, for each placed task, the locks that it needs. taken has the locks for the task that is being placed.
	held  map[api.TaskID][]nodeLock
	taken []nodeLock
}

// nodeLock identifies a lock by its node and by the annotation of its kind of devices.
type nodeLock struct{ node, annotation string }

func newNodeLocks(kinds []kind) *nodeLocks {
	withLock := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.lock == "" })
	return &nodeLocks{kinds: withLock, held: map[api.TaskID][]nodeLock{}}
}

// assignLocks assigns to the task all locks that were taken since the last call of assignLocks.
func (l *nodeLocks) assignLocks(task api.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.taken) > 0 {
		l.held[task] = append(l.held[task], l.taken...)
		l.taken = nil
	}
}

// drop removes the task's locks from the session.
func (l *nodeLocks) drop(task api.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, task)
}

func (l *nodeLocks) of(task api.TaskID) []nodeLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[task]
}

// locked reports whether a task already needs the lock. This is a task that the session has placed or is placing now.
// If pods of the kind need the lock until the device plugin has assigned their devices (lockStays), it may also be a
// task that was placed earlier and is not bound yet.
func (l *nodeLocks) locked(lock nodeLock, kind kind) bool {
	if slices.Contains(l.taken, lock) {
		return true
	}
	for _, held := range l.held {
		if slices.Contains(held, lock) {
			return true
		}
	}
	for _, task := range l.nodes[lock.node].Tasks {
		if _, ok := task.Pod.Annotations[kind.holds]; ok && task.Status == api.Binding && kind.lockStays {
			return true
		}
	}
	return false
}

// node returns a copy of the session's node. The annotations of the copy include the locks that were taken in the
// session, and exclude expired locks.
func (l *nodeLocks) node(name string) (*v1.Node, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, ok := l.nodes[name]
	if !ok || info.Node == nil {
		return nil, false
	}
	node := info.Node.DeepCopy()
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	for _, kind := range l.kinds {
		switch {
		case l.locked(nodeLock{name, kind.lock}, kind):
			node.Annotations[kind.lock] = time.Now().Format(time.RFC3339)
		case expired(node.Annotations[kind.lock]):
			delete(node.Annotations, kind.lock)
		}
	}
	return node, true
}

// takeOver records the locks that upstream took or released by changing annotations of the node. It returns false if
// upstream has changed no lock.
func (l *nodeLocks) takeOver(node *v1.Node) bool {
	before, ok := l.node(node.Name)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	locking := false
	for _, kind := range l.kinds {
		_, was := before.Annotations[kind.lock]
		_, is := node.Annotations[kind.lock]
		if was == is {
			continue
		}
		locking = true
		lock := nodeLock{node.Name, kind.lock}
		if is {
			l.taken = append(l.taken, lock)
		} else {
			l.taken = slices.DeleteFunc(l.taken, func(taken nodeLock) bool { return taken == lock })
		}
	}
	return locking
}

// nodeClient is the client for nodes that upstream's device code uses in a session. It reads the session's copies of
// nodes, and takes locks on these copies.
type nodeClient struct {
	corev1.NodeInterface
	locks *nodeLocks
}

func (n *nodeClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1.Node, error) {
	if node, ok := n.locks.node(name); ok {
		return node, nil
	}
	return n.NodeInterface.Get(ctx, name, opts)
}

func (n *nodeClient) Update(ctx context.Context, node *v1.Node, opts metav1.UpdateOptions) (*v1.Node, error) {
	if n.locks.takeOver(node) {
		return node, nil
	}
	return n.NodeInterface.Update(ctx, node, opts)
}
