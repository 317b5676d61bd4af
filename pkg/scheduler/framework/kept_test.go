// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"errors"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// starter counts how often it starts an informer.
type starter struct {
	framework.Handle
	started int
	refuses error
}

func (s *starter) StartInformers(informers ...cache.SharedIndexInformer) error {
	s.started += len(informers)
	return s.refuses
}

// TestStateIsKeptForAScheduler checks that the state is kept for a scheduler. It is created once for each scheduler,
// its informers are requested at each reload, and a failed creation is not kept.
func TestStateIsKeptForAScheduler(t *testing.T) {
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Nodes().Informer()
	made, broken := 0, errors.New("it is broken")
	var fails error
	build := func(framework.Handle) (int, []cache.SharedIndexInformer, error) {
		made++
		return made, []cache.SharedIndexInformer{informer}, fails
	}
	first, second := &starter{}, &starter{}
	kept := &framework.Kept[int]{}
	of := func(h framework.Handle, want int, wantErr error) {
		t.Helper()
		if got, err := kept.Of(h, build); got != want || !errors.Is(err, wantErr) {
			t.Errorf("the state is %d, %v; want %d, %v", got, err, want, wantErr)
		}
	}
	of(first, 1, nil)
	of(first, 1, nil)
	if first.started != 2 {
		t.Errorf("the informer was requested %d times, want at each reload", first.started)
	}
	fails = broken
	of(second, 0, broken)
	of(first, 1, nil)
	fails, second.refuses = nil, broken
	of(second, 0, broken)
	second.refuses = nil
	of(second, 4, nil)
	of(second, 4, nil)
	of(first, 5, nil)
}
