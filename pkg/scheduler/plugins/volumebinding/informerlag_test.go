// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"sync"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// holdBack delays the informers' events of volumes until the returned function is called.
func (w *testCluster) holdBack() (release func()) {
	gate := make(chan struct{})
	w.setGate(gate)
	return func() {
		w.setGate(nil)
		close(gate)
		synctest.Wait()
	}
}

func (w *testCluster) setGate(gate chan struct{}) {
	w.writes.Lock()
	defer w.writes.Unlock()
	w.gate = gate
}

// gated returns the watch of all volumes for informers.
func (w *testCluster) gated(action clienttesting.Action) (bool, watch.Interface, error) {
	all, err := w.kube.Tracker().Watch(action.GetResource(), action.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	g := &gatedWatch{Interface: all, cluster: w, passed: make(chan watch.Event), stopped: make(chan struct{})}
	go g.pass()
	return true, g, nil
}

// gatedWatch delivers events while the gate is open.
type gatedWatch struct {
	watch.Interface
	cluster *testCluster
	passed  chan watch.Event
	once    sync.Once
	stopped chan struct{}
}

func (g *gatedWatch) ResultChan() <-chan watch.Event { return g.passed }

func (g *gatedWatch) Stop() {
	g.once.Do(func() { close(g.stopped) })
	g.Interface.Stop()
}

func (g *gatedWatch) pass() {
	defer close(g.passed)
	for event := range g.Interface.ResultChan() {
		g.cluster.writes.Lock()
		gate := g.cluster.gate
		g.cluster.writes.Unlock()
		if gate != nil {
			select {
			case <-gate:
			case <-g.stopped:
				return
			}
		}
		select {
		case g.passed <- event:
		case <-g.stopped:
			return
		}
	}
}
