// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"sync"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// holdBack keeps what becomes of volumes from the informers until the returned function is called.
func (w *world) holdBack() (release func()) {
	gate := make(chan struct{})
	w.setGate(gate)
	return func() {
		w.setGate(nil)
		close(gate)
		synctest.Wait()
	}
}

func (w *world) setGate(gate chan struct{}) {
	w.writes.Lock()
	defer w.writes.Unlock()
	w.gate = gate
}

// gated is the watch of all volumes, which informers have.
func (w *world) gated(action clienttesting.Action) (bool, watch.Interface, error) {
	all, err := w.kube.Tracker().Watch(action.GetResource(), action.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	g := &gatedWatch{Interface: all, world: w, passed: make(chan watch.Event), stopped: make(chan struct{})}
	go g.pass()
	return true, g, nil
}

// gatedWatch passes on events when the gate is open.
type gatedWatch struct {
	watch.Interface
	world   *world
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
		g.world.writes.Lock()
		gate := g.world.gate
		g.world.writes.Unlock()
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
